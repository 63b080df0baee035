//! What keeps a pilot's files and processes from others: private folders, locks, and a memory that cannot be read.
//!
//! What a pilot keeps (outputs in its spool, its log) is its user's own business on a shared disk.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::Path,
};

pub use protocol::files::private::{file_options, make_folder};

/// The user that this process acts as.
pub fn user() -> u32 {
    // SAFETY: no memory is passed.
    unsafe { libc::geteuid() }
}

/// Makes a pilot's folder, or takes one that is there, for this user only.
///
/// # Errors
/// It cannot be made, is somebody else's, or others may have put something there.
pub fn take_folder(path: &Path) -> io::Result<()> {
    protocol::files::private::take_folder(path, user())
}

/// Keeps other processes of this user, such as tasks, from reading this one's memory and environment, where its tokens
/// are, and from tracing it. The kernel then writes no core dump of it either. It does not hold against root, nor for
/// programs that this process runs.
///
/// Where `/proc` shows users only processes that they may trace (`hidepid`), nothing is done: pilots of this user could
/// not be found any more.
pub fn hide_memory() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if hides_processes(&mounts) {
        return;
    }
    // SAFETY: no memory is passed. If it fails, the process is as readable as before.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

/// Whether `/proc` is mounted with `hidepid` other than 0, by the text of `mountinfo`: its fifth field is where, the
/// last one how.
fn hides_processes(mounts: &str) -> bool {
    let proc = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"));
    let options = proc.and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
    options
        .split(',')
        .filter_map(|option| option.strip_prefix("hidepid="))
        .any(|how| !["0", "off"].contains(&how))
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
    use super::hides_processes;

    #[test]
    fn hidepid_is_read_from_the_mount_that_counts() {
        let proc =
            |options: &str| format!("22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw{options}\n");
        let other = "23 28 0:22 / /proc/sys/fs/binfmt_misc rw - binfmt_misc b rw,hidepid=2\n";
        for (mounts, hides) in [
            (proc(""), false),
            (proc("") + other, false),
            (proc(",gid=5,hidepid=2"), true),
            (proc(",hidepid=invisible") + other, true),
            (proc(",hidepid=ptraceable"), true),
            (proc(",hidepid=0"), false),
            (proc(",hidepid=2") + &proc(""), false),
            (String::new(), false),
        ] {
            assert_eq!(hides_processes(&mounts), hides, "{mounts}");
        }
    }
}
