//! One process of the spawner: its role, the reason for its end, and its resource use.

use std::time::{Duration, Instant};

use super::{Environment, Launch, Outcome, capture::PipeSlot, family::Family, memory};

/// Interval between checks of memory limits.
const MEMORY_INTERVAL: Duration = Duration::from_millis(200);
/// The interval for programs without a limit: it shows which program held much memory if memory runs out.
const UNLIMITED_MEMORY_INTERVAL: Duration = Duration::from_secs(2);
/// For processes that hold more, shared pages are counted once.
const EXACT_FROM_BYTES: u64 = 1 << 30;

/// A running process.
pub(super) struct Child {
    pub(super) role: Role,
    pub(super) started: Instant,
    pub(super) stdout: Option<PipeSlot>,
    pub(super) stderr: Option<PipeSlot>,
    /// When to act next: at the time limit, or at the end of the grace time.
    pub(super) deadline: Option<Instant>,
    pub(super) grace: Duration,
    pub(super) ending: Option<Ending>,
    /// Whether it did not ignore a signal that all processes got.
    pub(super) was_signalled: bool,
    /// If set: signal the process at `deadline`, and kill it after this grace time.
    pub(super) due: Option<Duration>,
    /// Its environment, with the mark of its family.
    pub(super) environment: Environment,
    /// Its family, once it was signalled.
    pub(super) family: Option<Family>,
    memory_limit_bytes: u64,
    /// Memory of it and its descendants when it was over the limit.
    pub(super) excess_bytes: u64,
    /// The most memory that was measured for it and its descendants.
    pub(super) family_bytes: u64,
    /// When memory was measured last.
    pub(super) memory_seen_at: Instant,
}

impl Child {
    /// Returns a process that was just started for `launch`; `streams`: where its output is kept.
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

    /// Schedules the end of the process. The first reason counts.
    pub(super) fn end(&mut self, ending: Ending, grace: Duration) {
        self.ending = self.ending.or(Some(ending));
        self.due = Some(grace);
        self.deadline = Some(Instant::now());
    }

    /// Returns the interval between two memory checks.
    pub(super) fn memory_interval(&self) -> Duration {
        if self.memory_limit_bytes > 0 { MEMORY_INTERVAL } else { UNLIMITED_MEMORY_INTERVAL }
    }

    /// Measures the memory of the process and its descendants, and ends it if that is over its limit.
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

/// The role of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// A process that runs one task.
    Task { token: u64 },
    /// A resident program, which runs tasks one after another.
    Resident { resident: u64 },
}

/// The reason for ending a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    TimeLimit,
    MemoryLimit,
    Killed,
    BadAnswer,
}

/// The end of a process and its resource use.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) cpu_us: u64,
    pub(super) peak_memory_bytes: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    /// Whether its process group was empty.
    pub(super) was_last_of_group: bool,
    /// Time that it ran and time that it waited for a CPU, if measured.
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

/// Possible error of the kernel's count for one process, which it sums up only now and then.
const OWN_MEMORY_MARGIN_KIB: libc::c_long = 1024;

/// Returns a process's peak memory; 0 if it is not above the agent's own. The kernel also counts the process
/// before its exec, which after vfork is this agent, so smaller values are unknown.
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

/// Returns a duration in whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
