//! Folders and files that only their owner may enter and read, whatever the umask.
//!
//! What a pilot keeps (outputs in its spool, its log) is its user's own business on a shared disk.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::Path,
};

/// Makes a folder, and those above it that are missing; one that is there stays as it is.
///
/// # Errors
/// It cannot be made, or something else has its name.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options for a file that is made if it is not there.
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

/// Takes a file for us alone, and for whoever inherits it; false when somebody else has it. Where locks do
/// not work nobody has.
pub fn lock(file: &File) -> bool {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock
}

/// Takes a file as [`lock`] does and waits for whoever has it, which must be for moments only.
pub fn lock_patiently(file: &File) {
    // SAFETY: no memory is passed. Where locks do not work there is nothing to wait for.
    while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

#[cfg(test)]
pub(crate) mod testing {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    /// Asserts that nobody but the owner may do anything with what is in a folder, and with itself.
    pub(crate) fn assert_private(path: &Path) {
        let facts = fs::symlink_metadata(path).unwrap();
        assert_eq!(facts.permissions().mode() & 0o077, 0, "{path:?}");
        if facts.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| assert_private(&entry.unwrap().path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{file_options, make_folder, testing::assert_private};

    #[test]
    fn what_is_made_is_its_owners_only() {
        let root = tempfile::tempdir().unwrap();
        make_folder(&root.path().join("a/b")).unwrap();
        file_options().append(true).open(root.path().join("a/b/c")).unwrap();
        assert_private(&root.path().join("a"));
    }
}
