//! Protects a pilot's files and processes from other users and processes: private folders, locks, unreadable
//! memory.
//!
//! A pilot's files (outputs in its spool, its log) belong to its user alone, also on a shared disk.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::Path,
};

pub use protocol::files::private::{file_options, make_folder};

/// Returns the user id as which this process acts.
pub fn user() -> u32 {
    // SAFETY: no memory is passed.
    unsafe { libc::geteuid() }
}

/// Creates a pilot's folder, or takes over an existing one, for this user only.
///
/// # Errors
/// It cannot be created, belongs to another user, or other users may have written to it.
pub fn take_folder(path: &Path) -> io::Result<()> {
    protocol::files::private::take_folder(path, user())
}

/// Keeps other processes of this user, like tasks, from tracing this process and from reading its memory and
/// environment, where its tokens are. The kernel then writes no core dump of it either. This does not protect
/// from root, nor does it cover programs that this process runs.
///
/// Does nothing if `/proc` shows users only processes that they may trace (`hidepid`): pilots of this user
/// could not be found any more.
pub fn hide_memory() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if hides_processes(&mounts) {
        return;
    }
    // SAFETY: no memory is passed. If it fails, the process is as readable as before.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

/// Returns whether `/proc` is mounted with a `hidepid` other than 0, from the text of `mountinfo`: the fifth
/// field is the mount point, the last one has the options.
fn hides_processes(mounts: &str) -> bool {
    let proc = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"));
    let options = proc.and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
    options
        .split(',')
        .filter_map(|option| option.strip_prefix("hidepid="))
        .any(|how| !["0", "off"].contains(&how))
}

/// Locks a file for this process and those that inherit it; returns false if another process has the lock.
/// Returns true if locks do not work.
pub fn lock(file: &File) -> bool {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock
}

/// Locks a file like [`lock`], and waits for another holder, which must hold it only for moments.
pub fn lock_patiently(file: &File) {
    // SAFETY: no memory is passed. If locks do not work, it does not wait.
    while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

#[cfg(test)]
pub(crate) mod testing {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    /// Asserts that only the owner has access to a folder and to everything in it.
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
