//! Waits for the end of a process that is not our child.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
    time::Duration,
};

use tokio::io::{Interest, unix::AsyncFd};

/// Interval between looks if the kernel has no pidfd.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until the process has ended; returns at once if there is none.
pub async fn process_end(pid: u32) {
    // SAFETY: the AsyncFd owns the descriptor, which nobody else knows.
    let watch = |pidfd| unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
    match open(pid).and_then(|pidfd| watch(pidfd).map_err(io::Error::from)) {
        Ok(pidfd) => {
            // After an error the process cannot be watched any more; it counts as ended.
            let _ = pidfd.readable().await;
        }
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
        // Linux before 5.3 has no pidfds.
        Err(_) => {
            while is_alive(pid) {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
    }
}

fn open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed; the new descriptor is owned by nobody else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        match i32::try_from(fd) {
            Ok(fd) if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    // SAFETY: signal 0 sends nothing. With EPERM the process exists, under another account.
    unsafe { libc::kill(pid, 0) == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM) }
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Command, Stdio},
        time::Duration,
    };

    use super::{is_alive, process_end};

    #[tokio::test(flavor = "current_thread")]
    async fn end_of_a_process_is_noticed() {
        let mut process = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = process.id();
        assert!(is_alive(pid));
        let mut end = std::pin::pin!(process_end(pid));
        let still = tokio::time::timeout(Duration::from_millis(1), &mut end).await;
        assert!(still.is_err());
        drop(process.stdin.take());
        end.await;
        process.wait().unwrap();
        process_end(pid).await;
        assert!(!is_alive(pid));
    }
}
