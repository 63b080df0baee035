//! The worker's side of the guard: whether the guard is alive, and the folders that it is to remove.

use std::{
    fs::File,
    io::Write,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicI32, Ordering},
    },
};

/// The guard of this process, if it is a worker; else 0.
static GUARD: AtomicI32 = AtomicI32::new(0);
/// The worker's end of a pipe to its guard: folders to remove after the worker's end, each followed by a NUL.
static LEFT: OnceLock<File> = OnceLock::new();

/// Makes this process a worker with this guard.
pub(super) fn begin(guard: libc::pid_t, told: OwnedFd) {
    GUARD.store(guard, Ordering::Relaxed);
    LEFT.get_or_init(|| File::from(told));
}

/// Returns the process id of the guard, if this process has one that is alive.
pub fn living_guard() -> Option<i32> {
    let guard = GUARD.load(Ordering::Relaxed);
    // SAFETY: no memory is passed.
    (guard > 0 && unsafe { libc::getppid() } == guard).then_some(guard)
}

/// Lets the guard remove this folder if the worker ends without having removed it, because it was killed.
pub fn leave_to_guard(folder: &Path) {
    tell_guard(folder.as_os_str().as_bytes());
}

/// Lets the guard remove this cache then, with the empty folders above it, up to `top`.
pub fn leave_cache_to_guard(top: &Path, root: &Path) {
    // A path that was put together from its components never contains two slashes in a row.
    let plain = |path: &Path| path.components().collect::<PathBuf>();
    let (top, root) = (plain(top), plain(root));
    if let Ok(below) = root.strip_prefix(&top) {
        tell_guard(&[top.as_os_str().as_bytes(), b"//", below.as_os_str().as_bytes()].concat());
    }
}

fn tell_guard(word: &[u8]) {
    if let Some(mut told) = LEFT.get() {
        let words = [word, b"\0"].concat();
        // Without a guard the next pilot removes the folder.
        let _ = told.write_all(&words);
    }
}

/// Whether this process is a worker whose guard has been killed.
pub fn is_unguarded() -> bool {
    GUARD.load(Ordering::Relaxed) > 0 && living_guard().is_none()
}
