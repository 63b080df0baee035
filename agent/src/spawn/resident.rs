//! One resident program: its start, its queue of tasks, and its resource use.

use std::{
    collections::VecDeque,
    fs::File,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Exit, Launch, Outcome, child::micros, memory};

/// Interval between looks at a resident program's memory.
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);

/// A task for a resident program.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The caller's id, returned in the [`Exit`].
    pub token: u64,
    /// The resident program, by another id of the caller.
    pub resident: u64,
    /// How to start the program. Time limit, token and stdin are not used.
    pub launch: Arc<Launch>,
    /// The line for the task, without the line end.
    pub question: String,
    /// The longest time that the task may take.
    pub time_limit: Option<Duration>,
}

/// A resident program, or the state of one that has ended.
pub(super) struct Resident {
    pub(super) launch: Arc<Launch>,
    pub(super) running: Option<Running>,
    /// Tasks that were sent and are not answered, in order.
    pub(super) queue: VecDeque<Asked>,
    /// Whether the program was ended and its family is not gone yet: it is started again after that.
    pub(super) is_lingering: bool,
}

pub(super) struct Running {
    pub(super) pid: libc::pid_t,
    pub(super) stdin: File,
    pub(super) stdout: File,
    /// Bytes for the program that the pipe has not taken yet.
    pub(super) unsent: Vec<u8>,
    pub(super) is_waiting_for_room: bool,
    /// The beginning of an answer.
    pub(super) partial: Vec<u8>,
    /// Whether it has closed its standard output and should end soon.
    pub(super) is_mute: bool,
    /// Whether it has got the line of a withdrawn task: it must be ended after its present answer.
    pub(super) knows_withdrawn: bool,
    /// When the first task of the queue began.
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
    /// Returns the end of the present task; the next one begins.
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

/// Returns the CPU time of a whole process in microseconds; `None` if it is gone.
fn cpu_us(pid: libc::pid_t) -> Option<u64> {
    // The kernel's number for the CPU clock of another process; the C library's function only adds a check.
    let clock = (!pid << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1000)
}
