use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where installed programs are looked for, best first.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folders: Vec<PathBuf>,
}

impl Programs {
    /// Looks in `PATH`, then in the folders that a package puts its programs in.
    pub(super) fn installed(beyond_path: impl IntoIterator<Item = PathBuf>) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self { folders: std::env::split_paths(&path).chain(beyond_path).collect() }
    }

    /// Finds nothing.
    #[cfg(test)]
    pub(super) fn nowhere() -> Self {
        Self { folders: Vec::new() }
    }

    /// The first folder that has all of these programs.
    pub(super) fn folder_of(&self, programs: &[&str]) -> Option<&Path> {
        let has_all = |folder: &&PathBuf| programs.iter().all(|program| is_executable(&folder.join(program)));
        self.folders.iter().find(has_all).map(PathBuf::as_path)
    }
}

/// The folders `<root>/<version>/bin`, newest version first.
pub(super) fn versions_under(root: &Path) -> Vec<PathBuf> {
    let versions = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut versions: Vec<(Vec<u32>, PathBuf)> =
        versions.map(|entry| (numbers(&entry.file_name().to_string_lossy()), entry.path().join("bin"))).collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
}

/// `9.6` is older than `15`, though its name sorts behind.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

fn is_executable(program: &Path) -> bool {
    program.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first_by_number_not_by_name() {
        let mut versions = ["15", "9.6", "17", "10", "common"].map(numbers);

        versions.sort();

        assert_eq!(versions, [vec![0], vec![9, 6], vec![10], vec![15], vec![17]]);
    }
}
