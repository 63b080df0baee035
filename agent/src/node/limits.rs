//! Limits of this process that would end it without a word.

use std::{io, time::Duration};

use protocol::text::ulimits::Limit;

/// The smallest stack of the first thread with which this program runs, in bytes.
const STACK_BYTES_MIN: u64 = 1 << 20;

/// Has a write beyond the limit of the size of files fail with an error, which is told, and not end this process. Programs
/// that it starts are ended as ever: a handler, other than a signal that is ignored, is not theirs.
pub fn outlive_file_size() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, which may be done at any time. All other fields may be zero: no flags, and no
    // signals that are blocked meanwhile.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut());
    }
}

/// A runtime for a thread of its own. Where that thread cannot be started it is dropped among tasks of another runtime, which
/// a plain one answers with a panic.
pub(crate) struct OwnRuntime(Option<tokio::runtime::Runtime>);

impl OwnRuntime {
    /// Makes it.
    ///
    /// # Errors
    /// The system has no files for it.
    pub(crate) fn new() -> io::Result<OwnRuntime> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map(|runtime| OwnRuntime(Some(runtime)))
    }

    /// Does all of the work.
    pub(crate) fn block_on(&self, work: impl Future<Output = ()>) {
        if let Some(runtime) = &self.0 {
            runtime.block_on(work);
        }
    }

    /// Ends it; what blocks has so long to end, too.
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

/// Whether the stack suffices. To be asked before anything is done that needs more of it.
///
/// # Errors
/// It does not: in words.
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
        // The same in a process of its own, as the limit would be this one's.
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
