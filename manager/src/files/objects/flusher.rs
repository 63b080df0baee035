//! Flushes that several threads share: whoever wants one while another runs joins the next.

use std::{
    io,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// Who flushes when.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    state: Mutex<State>,
    has_ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Flushes that have begun, numbered from 1.
    n_begun: u64,
    /// The last one that ended well.
    n_done: u64,
    is_running: bool,
    /// Threads that wait for a flush to end.
    n_waiting: u64,
}

impl Flusher {
    /// Returns when a flush has ended well that began after this was called: by `flush` here, or by that of another
    /// thread, which must be of the same file system.
    ///
    /// # Errors
    /// Those of `flush`. When the flush of another thread fails, this thread tries by itself.
    pub(super) fn flush(&self, flush: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        // One that runs now may have passed by what this thread has written.
        let wanted = state.n_begun + 1;
        while state.is_running {
            state.n_waiting += 1;
            state = self.has_ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.n_waiting -= 1;
            if state.n_done >= wanted {
                return Ok(());
            }
        }
        state.n_begun += 1;
        state.is_running = true;
        let running = Running { flusher: self, number: state.n_begun, is_well: false };
        drop(state);
        running.end(flush())
    }

    /// What is behind it is whole at any time.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flush that runs. Others go on when it is dropped, even by a panic.
struct Running<'f> {
    flusher: &'f Flusher,
    number: u64,
    is_well: bool,
}

impl Running<'_> {
    fn end(mut self, result: io::Result<()>) -> io::Result<()> {
        self.is_well = result.is_ok();
        result
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.flusher.lock();
        state.is_running = false;
        if self.is_well {
            state.n_done = state.n_done.max(self.number);
        }
        drop(state);
        self.flusher.has_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicU64, Ordering},
            mpsc,
        },
        thread,
    };

    use super::*;

    /// A first flush runs until so many other threads wait. Says how often these have flushed, and how many have failed.
    fn flushes_of_waiting_threads(n_threads: u64, is_failing: bool) -> (u64, u64) {
        let (flusher, n_flushes, n_failed) = (Flusher::default(), AtomicU64::new(0), AtomicU64::new(0));
        let flush = || {
            n_flushes.fetch_add(1, Ordering::SeqCst);
            if is_failing { Err(io::Error::other("full")) } else { Ok(()) }
        };
        let (began, has_begun) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let flusher = &flusher;
        thread::scope(|scope| {
            let first = scope.spawn(move || {
                flusher.flush(|| {
                    began.send(()).unwrap();
                    may_end.recv().unwrap();
                    Ok(())
                })
            });
            has_begun.recv().unwrap();
            for _ in 0..n_threads {
                scope
                    .spawn(|| n_failed.fetch_add(u64::from(flusher.flush(flush).is_err()), Ordering::SeqCst));
            }
            while flusher.lock().n_waiting < n_threads {
                thread::yield_now();
            }
            end.send(()).unwrap();
            assert!(first.join().unwrap().is_ok());
        });
        (n_flushes.into_inner(), n_failed.into_inner())
    }

    #[test]
    fn threads_that_wait_share_one_flush_that_begins_after_they_came() {
        assert_eq!(flushes_of_waiting_threads(1, false), (1, 0));
        assert_eq!(flushes_of_waiting_threads(4, false), (1, 0));
    }

    #[test]
    fn threads_whose_flush_was_that_of_another_and_failed_try_by_themselves() {
        assert_eq!(flushes_of_waiting_threads(4, true), (4, 4));
    }
}
