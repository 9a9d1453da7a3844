use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::PathBuf;

use super::user::User;

/// A number that no other call in any process gets, but for a chance of 2^-64.
pub(super) fn unlike_any_other() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Makes a new folder for temporary things that nobody but this user may enter.
pub(super) fn of(user: &User) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("idem-tests-{:016x}", unlike_any_other()));
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return of(user),
        made => made.unwrap_or_else(|error| panic!("{}: {error}", folder.display())),
    }
    if let Some((uid, gid)) = user.to_become() {
        chown(&folder, Some(uid), Some(gid)).unwrap();
    }
    folder
}
