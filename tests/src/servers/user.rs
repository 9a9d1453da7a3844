use std::os::unix::process::CommandExt;
use std::process::Command;

/// Who runs the servers: whoever runs the tests, but never root, whom Postgres and `PgBouncer` refuse.
#[derive(Clone, Copy, Debug)]
pub(super) struct User(Option<(u32, u32)>);

impl User {
    /// The first of these users that exists, where the tests run as root.
    pub(super) fn unprivileged(preferred: &[&str]) -> Self {
        if !nix::unistd::geteuid().is_root() {
            return Self(None);
        }
        let user = preferred.iter().find_map(|name| nix::unistd::User::from_name(name).ok().flatten());
        let user = user.unwrap_or_else(|| panic!("root may not run this server, and there is no user {preferred:?}"));
        Self(Some((user.uid.as_raw(), user.gid.as_raw())))
    }

    /// Has the command run as this user.
    pub(super) fn runs(self, command: &mut Command) {
        if let Some((uid, gid)) = self.0 {
            command.uid(uid).gid(gid);
        }
    }
}
