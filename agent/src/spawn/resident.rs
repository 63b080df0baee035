//! One resident program: how it is started, what it was asked, and what it has used.

use std::{
    collections::VecDeque,
    fs::File,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Exit, Launch, Outcome, child::micros, memory};

/// How often a resident's memory is looked at.
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);

/// A task for a resident program.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The caller's own number; comes back with the [`Exit`].
    pub token: u64,
    /// Which resident program: the caller's own number too.
    pub resident: u64,
    /// How to start it if it is not there. Its time limit, token and stdin are not used.
    pub launch: Arc<Launch>,
    /// What to ask, without the line end.
    pub question: String,
    /// How long it may take.
    pub time_limit: Option<Duration>,
}

/// A resident program, or the place of one that has ended.
pub(super) struct Resident {
    pub(super) launch: Arc<Launch>,
    pub(super) running: Option<Running>,
    /// Asked and not answered, in order.
    pub(super) queue: VecDeque<Asked>,
    /// It was ended, and what it had started is not gone yet: it is started again after that.
    pub(super) is_lingering: bool,
}

pub(super) struct Running {
    pub(super) pid: libc::pid_t,
    pub(super) stdin: File,
    pub(super) stdout: File,
    /// Written by us and not yet taken by the pipe.
    pub(super) unsent: Vec<u8>,
    pub(super) is_waiting_for_room: bool,
    /// An answer's beginning.
    pub(super) partial: Vec<u8>,
    /// It has closed its standard output and should be about to end.
    pub(super) is_mute: bool,
    /// It has been asked what it is not to answer: it must go after the answer that it is at.
    pub(super) knows_withdrawn: bool,
    /// When the first of the queue was begun.
    pub(super) since: Instant,
    pub(super) cpu_us_before: u64,
    pub(super) memory_bytes: u64,
    pub(super) memory_seen_at: Option<Instant>,
}

pub(super) struct Asked {
    pub(super) token: u64,
    pub(super) question: String,
    pub(super) time_limit: Option<Duration>,
    pub(super) is_cancelled: bool,
}

impl Running {
    /// The end of the task it was at; the next one begins.
    pub(super) fn exit(&mut self, token: u64, outcome: Outcome) -> Exit {
        let now = Instant::now();
        if self.memory_seen_at.is_none_or(|at| now.duration_since(at) > MEMORY_INTERVAL) {
            self.memory_seen_at = Some(now);
            self.memory_bytes = memory::resident_bytes(self.pid).unwrap_or(self.memory_bytes);
        }
        let cpu_us = cpu_us(self.pid).unwrap_or(self.cpu_us_before);
        let mut exit = Exit::new(token, outcome, self.since);
        exit.wall_us = micros(now.duration_since(self.since));
        exit.cpu_us = cpu_us.saturating_sub(self.cpu_us_before);
        exit.peak_memory_bytes = self.memory_bytes;
        self.since = now;
        self.cpu_us_before = cpu_us;
        exit
    }
}

/// CPU time of a whole process so far in microseconds; `None` when it is gone.
fn cpu_us(pid: libc::pid_t) -> Option<u64> {
    // How the kernel numbers other processes' clocks; the C library's function only adds a check.
    let clock = (!pid << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1000)
}
