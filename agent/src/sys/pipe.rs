//! Pipes that programs do not inherit.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
};

/// Returns a pipe with both ends closed on exec: (read, write).
///
/// # Errors
/// There are no descriptors left.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors, owned by nobody else afterwards.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Makes reads and writes return at once.
///
/// # Errors
/// The descriptor does not allow it.
pub(crate) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: no memory is passed. The agent's pipes have no other status flags to keep.
    if unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
