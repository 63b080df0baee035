//! One process that was started here: what it is for, why it is ended, and what it used.

use std::time::{Duration, Instant};

use super::{Environment, Launch, Outcome, capture::PipeSlot, family::Family, memory};

/// How often memory limits are looked at.
const MEMORY_INTERVAL: Duration = Duration::from_millis(200);
/// … and that of programs without a limit: when memory runs out, it is known which of them held much.
const UNLIMITED_MEMORY_INTERVAL: Duration = Duration::from_secs(2);
/// Of those that hold more, pages that several processes have in common are counted once.
const EXACT_FROM_BYTES: u64 = 1 << 30;

/// A running process.
pub(super) struct Child {
    pub(super) role: Role,
    pub(super) started: Instant,
    pub(super) stdout: Option<PipeSlot>,
    pub(super) stderr: Option<PipeSlot>,
    /// When to act next: the time limit, or the end of the grace.
    pub(super) deadline: Option<Instant>,
    pub(super) grace: Duration,
    pub(super) ending: Option<Ending>,
    /// Whether it did not ignore a signal that all processes got.
    pub(super) was_signalled: bool,
    /// It is to be signalled when its deadline is over; then it has so long until it is killed.
    pub(super) due: Option<Duration>,
    /// What it was started with: its family's mark.
    pub(super) environment: Environment,
    /// Once it was signalled.
    pub(super) family: Option<Family>,
    memory_limit_bytes: u64,
    /// What it held, with its descendants, when that was found to be too much.
    pub(super) excess_bytes: u64,
    /// The most that it was seen to hold, with its descendants.
    pub(super) family_bytes: u64,
    /// When that was looked at last.
    pub(super) memory_seen_at: Instant,
}

impl Child {
    /// A process that was started just now for this launch; `streams`: where its output is kept.
    pub(super) fn new(role: Role, launch: Launch, streams: [Option<PipeSlot>; 2], started: Instant) -> Child {
        let [stdout, stderr] = streams;
        Child {
            role,
            started,
            stdout,
            stderr,
            deadline: launch.time_limit.and_then(|limit| started.checked_add(limit)),
            grace: launch.grace,
            ending: None,
            was_signalled: false,
            due: None,
            environment: launch.environment,
            family: None,
            memory_limit_bytes: launch.memory_limit_bytes,
            excess_bytes: 0,
            family_bytes: 0,
            memory_seen_at: started,
        }
    }

    /// Ends the process for a reason, soon; the first reason counts.
    pub(super) fn end(&mut self, ending: Ending, grace: Duration) {
        self.ending = self.ending.or(Some(ending));
        self.due = Some(grace);
        self.deadline = Some(Instant::now());
    }

    /// How often its memory is looked at.
    pub(super) fn memory_interval(&self) -> Duration {
        if self.memory_limit_bytes > 0 { MEMORY_INTERVAL } else { UNLIMITED_MEMORY_INTERVAL }
    }

    /// Looks at the memory of its family, and ends it if that is more than its limit.
    pub(super) fn see_memory(&mut self, pid: libc::pid_t, now: Instant) {
        let is_limited = self.memory_limit_bytes > 0;
        let limit = if is_limited { self.memory_limit_bytes } else { EXACT_FROM_BYTES };
        let held = memory::held_bytes(pid, limit);
        self.memory_seen_at = now;
        self.family_bytes = self.family_bytes.max(held);
        if is_limited && held > limit {
            self.excess_bytes = held;
            self.end(Ending::MemoryLimit, Duration::ZERO);
        }
    }
}

/// What a process is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// One task.
    Task { token: u64 },
    /// Tasks one after another.
    Resident { resident: u64 },
}

/// Why we end a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    TimeLimit,
    MemoryLimit,
    Killed,
    BadAnswer,
}

/// How a process ended and what it used.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) cpu_us: u64,
    pub(super) peak_memory_bytes: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    /// Whether nobody was left in its process group.
    pub(super) was_last_of_group: bool,
    /// How long it computed and waited for a CPU, if that was read.
    pub(super) scheduled_ns: Option<[u64; 2]>,
}

impl Ended {
    pub(super) fn new(status: libc::c_int, usage: &libc::rusage, was_last_of_group: bool) -> Ended {
        let outcome = if libc::WIFSIGNALED(status) {
            Outcome::Signal(libc::WTERMSIG(status))
        } else {
            Outcome::Code(libc::WEXITSTATUS(status))
        };
        let time = |t: libc::timeval| t.tv_sec.unsigned_abs() * 1_000_000 + t.tv_usec.unsigned_abs();
        Ended {
            outcome,
            cpu_us: time(usage.ru_utime) + time(usage.ru_stime),
            peak_memory_bytes: peak_memory_bytes(usage),
            read_bytes: usage.ru_inblock.unsigned_abs() * 512,
            write_bytes: usage.ru_oublock.unsigned_abs() * 512,
            was_last_of_group,
            scheduled_ns: None,
        }
    }
}

/// The kernel's own counts of one process differ by so much: it sums them up only now and then.
const OWN_MEMORY_MARGIN_KIB: libc::c_long = 1024;

/// A process's peak memory; 0 when it is not above our own. The kernel counts what the process was
/// before it became the task's program, which with vfork is this agent: anything smaller is hidden.
fn peak_memory_bytes(usage: &libc::rusage) -> u64 {
    // SAFETY: an all-zero rusage is a valid one, and getrusage only writes to it.
    let own = unsafe {
        let mut own: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut own);
        own
    };
    let is_its_own = usage.ru_maxrss > own.ru_maxrss.saturating_add(OWN_MEMORY_MARGIN_KIB);
    if is_its_own { usage.ru_maxrss.unsigned_abs() * 1024 } else { 0 }
}

/// A duration in whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
