//! Limits that would end this process without a message.

use std::{io, time::Duration};

use protocol::text::ulimits::Limit;

/// The smallest stack of the main thread with which this program runs, in bytes.
const STACK_BYTES_MIN: u64 = 1 << 20;

/// Makes a write beyond the file size limit fail with an error instead of ending this process. Programs that
/// it starts are still ended: exec resets a handler, but would keep an ignored signal.
pub fn outlive_file_size() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, so it may run at any time. All other fields may be zero: there are no
    // flags, and no signals are blocked in the handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut());
    }
}

/// A runtime for its own thread. If that thread cannot be started, it is dropped among the tasks of another
/// runtime, where a plain runtime would panic.
pub(crate) struct OwnRuntime(Option<tokio::runtime::Runtime>);

impl OwnRuntime {
    /// Creates the runtime.
    ///
    /// # Errors
    /// The system has no file descriptors left.
    pub(crate) fn new() -> io::Result<OwnRuntime> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map(|runtime| OwnRuntime(Some(runtime)))
    }

    /// Runs `work` to its end.
    pub(crate) fn block_on(&self, work: impl Future<Output = ()>) {
        if let Some(runtime) = &self.0 {
            runtime.block_on(work);
        }
    }

    /// Ends the runtime; blocking work has `patience` to end.
    pub(crate) fn end(mut self, patience: Duration) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(patience);
        }
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Checks the size of the stack. Must be called before any work that needs more stack.
///
/// # Errors
/// The stack is too small, as a text.
pub fn check_stack() -> io::Result<()> {
    match Limit::Stack.soft() {
        Some(bytes) if bytes < STACK_BYTES_MIN => Err(io::Error::other(format!(
            "the stack may have {} KiB here (ulimit -s), and at least {} are needed: raise that limit",
            bytes >> 10,
            STACK_BYTES_MIN >> 10
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, process::Command};

    use super::*;

    #[tokio::test]
    async fn runtime_whose_thread_is_not_started_is_dropped_among_tasks() {
        drop(OwnRuntime::new().unwrap());
    }

    #[test]
    fn write_beyond_the_limit_fails_and_programs_that_are_started_are_ended_by_it() {
        outlive_file_size();
        let folder = tempfile::tempdir().unwrap();
        // A real limit would count for this whole process, so another process tests it.
        let program = Command::new("sh")
            .args(["-c", "ulimit -f 1; head -c 9999 /dev/zero > file; kill -l $?"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&program.stdout), "XFSZ\n", "{program:?}");
        let mut file = std::fs::File::create(folder.path().join("other")).unwrap();
        // SAFETY: no memory is passed. The signal is that of a write beyond the limit.
        assert_eq!(unsafe { libc::raise(libc::SIGXFSZ) }, 0);
        file.write_all(b"still here").unwrap();
    }
}
