//! Opens files that users name, without blocking: otherwise one such file would hold up all tasks of the
//! thread.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::Path,
};

/// Opens a file; reads and writes block as usual.
///
/// # Errors
/// The system's error; ENXIO also for every named pipe, because its other end may never be opened.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = match options.custom_flags(libc::O_NONBLOCK).open(path) {
        // A file server on this host has a lease on it, which the kernel takes back in time.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && path.is_file() => {
            options.custom_flags(0).open(path)?
        }
        result => result?,
    };
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::from_raw_os_error(libc::ENXIO));
    }
    // SAFETY: no memory is passed. It clears O_NONBLOCK; no other status flag was asked for.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Returns a text on the file that [`open`] has refused, with a way out.
pub(crate) fn refused(path: &Path) -> Option<&'static str> {
    let kind = path.metadata().ok()?.file_type();
    if kind.is_fifo() {
        Some(
            "a named pipe; name a file, or open it in the command, as `< pipe` and `> pipe` in a shell line do",
        )
    } else if kind.is_socket() {
        Some("a socket; name a file, or connect to it in the command")
    } else {
        None
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path};

    /// Creates a pipe: to open or read it blocks until another process writes to it.
    pub(crate) fn make_pipe(path: &Path) {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends with NUL.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0, "{path:?}");
    }
}
