//! The children of one thread: their starts, limits, output and ends.
//!
//! Children belong to the thread that started them (`__WNOTHREAD`), so one call reaps any ended child of this
//! thread and of no other. A table must stay on the thread that made it.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    marker::PhantomData,
    mem,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::fs::FileExt,
    },
    path::Path,
    ptr,
    time::{Duration, Instant},
};

use super::{
    Exit, Launch, Outcome, Peek, Peeked,
    capture::{PipeSlot, Pipes},
    child::{Child, Ended, Ending, Role, micros},
    ending::{Families, Then, end_due},
    family::kill_group,
    prepare::{Failed, Null, Prepared, Target},
    program::Programs,
    resident::Resident,
    schedstat::schedstat,
    start::{Stack, last_errno},
    wake::{Bell, BellOwner},
};

/// Size of one read from a pipe: the pipe's default capacity.
const BUFFER_BYTES: usize = 64 * 1024;
/// The most events handled at a time.
const N_EVENTS: usize = 64;
/// Interval between readings of the times of ended processes. A sample of very many processes is enough.
const SCHEDSTAT_INTERVAL: Duration = Duration::from_millis(20);
/// Longest runtime of such a process; the checks of running processes find longer ones.
const SCHEDSTAT_OF_SHORTER: Duration = Duration::from_secs(2);
/// The event key of the bell; all other keys come from `Watched::key`.
const BELL: u64 = u64::MAX;

/// The source of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watched {
    /// The pipe in this slot has data.
    Pipe(PipeSlot),
    /// A resident program has written answers.
    Answers(libc::pid_t),
    /// The input of a resident program has room for questions.
    Questions(libc::pid_t),
}

/// The children of one thread.
pub(super) struct Processes {
    epoll: OwnedFd,
    bell: BellOwner,
    stack: Stack,
    null: Null,
    programs: Programs,
    pub(super) pipes: Pipes,
    /// The guard's list of its children, which includes processes that left a task's process group.
    strays: Option<File>,
    pub(super) children: HashMap<libc::pid_t, Child>,
    pub(super) residents: HashMap<u64, Resident>,
    /// Resident programs with unsent questions.
    pub(super) asked: Vec<libc::pid_t>,
    /// Families of ended programs that are not gone yet.
    pub(super) lingering: Families,
    pub(super) exits: Vec<Exit>,
    pub(super) buffer: Box<[u8]>,
    memory_check_at: Option<Instant>,
    /// When the kernel's times of an ended process were read last.
    schedstat_read_at: Option<Instant>,
    /// Makes the type not `Send`: on another thread the children would not be its own.
    not_send: PhantomData<*const ()>,
}

impl Processes {
    /// Returns an empty table for the calling thread. Blocks all signals in this thread, except while it
    /// waits.
    ///
    /// With a subreaper as `guard`, a pipe is used again once no process can hold it.
    ///
    /// # Errors
    /// There are no descriptors or memory left.
    pub(super) fn new(guard: Option<i32>) -> io::Result<Processes> {
        open_standard_descriptors();
        // SAFETY: only initialised sets are passed; the new descriptor is owned by nobody else.
        let epoll = unsafe {
            let mut all: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, ptr::null_mut());
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let processes = Processes {
            epoll,
            bell: BellOwner::new()?,
            stack: Stack::new()?,
            null: Null::new()?,
            programs: Programs::default(),
            pipes: Pipes::default(),
            strays: guard.and_then(|guard| File::open(format!("/proc/{guard}/task/{guard}/children")).ok()),
            children: HashMap::new(),
            residents: HashMap::new(),
            asked: Vec::new(),
            lingering: Families::default(),
            exits: Vec::new(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            memory_check_at: None,
            schedstat_read_at: None,
            not_send: PhantomData,
        };
        processes.poll_key(processes.bell.fd(), BELL, libc::EPOLLIN)?;
        Ok(processes)
    }

    /// Returns the bell that wakes [`Processes::wait`].
    pub(super) fn bell(&self) -> Bell {
        self.bell.bell()
    }

    /// Returns the exits since the last call.
    pub(super) fn take_exits(&mut self) -> Vec<Exit> {
        mem::take(&mut self.exits)
    }

    /// Starts a task's program.
    pub(super) fn launch(&mut self, launch: Launch) {
        let started = Instant::now();
        let token = launch.token;
        let prepared = Prepared::new(&launch, &mut self.pipes);
        let begun = prepared.and_then(|prepared| self.begin(launch, prepared, Role::Task { token }, started));
        if let Err(failed) = begun {
            self.exits.push(Exit::new(token, failed.into(), started));
        }
    }

    /// Starts a prepared program and adds it to the table.
    pub(super) fn begin(
        &mut self,
        launch: Launch,
        prepared: Prepared,
        role: Role,
        started: Instant,
    ) -> Result<libc::pid_t, Failed> {
        let (stdout, stderr) = (prepared.stdout.slot(), prepared.stderr.slot());
        for target in [&prepared.stdout, &prepared.stderr] {
            if let Target::Captured { slot, read, is_new: true, .. } = target
                && let Err(error) = self.poll(*read, Watched::Pipe(*slot), libc::EPOLLIN)
            {
                // It is still read at the end; a program that fills the pipe has a time limit.
                tracing::warn!(%error, "output cannot be watched");
            }
        }
        let result = prepared.start(&launch.environment, &mut self.programs, &mut self.stack, &self.null);
        let pid = match result {
            Ok(pid) => pid,
            Err(failed) => {
                for slot in [stdout, stderr].into_iter().flatten() {
                    self.pipes.finish(slot, &mut self.buffer, true);
                }
                return Err(failed);
            }
        };
        let child = Child::new(role, launch, [stdout, stderr], started);
        let check_at = started + child.memory_interval();
        if self.memory_check_at.is_none_or(|at| check_at < at) {
            self.memory_check_at = Some(check_at);
        }
        self.children.insert(pid, child);
        Ok(pid)
    }

    /// Ends a task: SIGTERM, then SIGKILL after `grace`.
    pub(super) fn kill(&mut self, token: u64, grace: Duration) {
        let is_it = |child: &Child| child.role == Role::Task { token };
        let found = self.children.values_mut().find(|child| is_it(child));
        match found {
            Some(child) => child.end(Ending::Killed, grace),
            None => self.kill_asked(token),
        }
    }

    /// Notes which programs of tasks do not ignore a signal that all processes got.
    pub(super) fn note_signal(&mut self, signal: libc::c_int) {
        for (pid, child) in &mut self.children {
            if matches!(child.role, Role::Task { .. }) && !child.was_signalled {
                let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                child.was_signalled = !is_ignored(&status, signal);
            }
        }
    }

    /// Passes on the output of a running program.
    pub(super) fn peek(&mut self, peek: Peek) {
        let role = Role::Task { token: peek.token };
        let Some(child) = self.children.values().find(|child| child.role == role) else { return };
        let slots = [child.stdout, child.stderr];
        let streams = [0, 1].map(|n| {
            let Some(slot) = slots[n] else { return (peek.from[n], Vec::new()) };
            self.pipes.read(slot, &mut self.buffer);
            self.pipes.since(slot, peek.from[n], peek.n_max)
        });
        (peek.tell)(Peeked { streams });
    }

    /// Waits until a child ends, the bell rings, or `timeout` is over.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) {
        self.send_questions();
        let is_busy = timeout.is_some_and(|timeout| timeout.is_zero());
        let timeout = match (timeout, self.next_deadline()) {
            _ if !self.exits.is_empty() => Some(Duration::ZERO),
            (Some(timeout), _) if timeout.is_zero() => Some(timeout),
            (timeout, None) => timeout,
            (timeout, Some(at)) => {
                let until = at.saturating_duration_since(Instant::now());
                Some(timeout.map_or(until, |timeout| timeout.min(until)))
            }
        };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; N_EVENTS];
        let n = self.wait_events(&mut events, timeout);
        let is_interrupted = n < 0 && last_errno() == libc::EINTR;
        let mut is_rung = is_interrupted;
        for event in events.iter().take(usize::try_from(n).unwrap_or(0)) {
            match event.u64 {
                BELL => is_rung = true,
                key => self.on_event(Watched::from_key(key)),
            }
        }
        if is_rung {
            self.bell.hush();
            self.reap();
        }
        self.act_on_deadlines(is_busy);
    }

    fn wait_events(&self, events: &mut [libc::epoll_event; N_EVENTS], timeout: Option<Duration>) -> i32 {
        // Rounded up, because a wake-up before the deadline would only lead to another wait.
        let milliseconds = timeout
            .map_or(-1, |timeout| i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
        // SAFETY: the buffer has room for N_EVENTS; the mask is initialised by sigfillset.
        unsafe {
            let mut mask: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&mut mask);
            libc::sigdelset(&mut mask, libc::SIGCHLD);
            libc::epoll_pwait(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                N_EVENTS as i32,
                milliseconds,
                &mask,
            )
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let deadlines = self.children.values().filter_map(|child| child.deadline);
        deadlines.chain(self.lingering.next_look()).chain(self.memory_check_at).min()
    }

    fn on_event(&mut self, watched: Watched) {
        match watched {
            Watched::Answers(pid) => self.on_answers(pid),
            Watched::Questions(pid) => self.on_room(pid),
            Watched::Pipe(slot) => self.pipes.read(slot, &mut self.buffer),
        }
    }

    /// Reaps all ended children.
    fn reap(&mut self) {
        loop {
            let scheduled = self.scheduled_of_next();
            let mut status = 0;
            // SAFETY: zeroed is a valid `rusage`; both pointers are to locals.
            let (pid, usage) = unsafe {
                let mut usage: libc::rusage = mem::zeroed();
                let pid = libc::wait4(-1, &mut status, libc::WNOHANG | libc::__WNOTHREAD, &mut usage);
                (pid, usage)
            };
            if pid <= 0 {
                return;
            }
            let was_last = !kill_group(pid, libc::SIGKILL);
            if let Some(child) = self.children.remove(&pid) {
                let mut ended = Ended::new(status, &usage, was_last);
                ended.scheduled_ns = scheduled.filter(|(of, _)| *of == pid).map(|(_, times_ns)| times_ns);
                self.ended(pid, child, ended);
            }
        }
    }

    /// Returns the child that is reaped next, the time that it ran and the time that it waited for a CPU, in
    /// nanoseconds. Reads that only from time to time, and only for short tasks, which the checks of running
    /// processes miss.
    fn scheduled_of_next(&mut self) -> Option<(libc::pid_t, [u64; 2])> {
        let now = Instant::now();
        if self.schedstat_read_at.is_some_and(|at| now < at + SCHEDSTAT_INTERVAL) {
            return None;
        }
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WNOTHREAD;
        // SAFETY: zeroed is a valid `siginfo_t`, pointed to by the call. Its pid is 0 if no child has ended.
        let pid = unsafe {
            let mut information: libc::siginfo_t = mem::zeroed();
            match libc::waitid(libc::P_ALL, 0, &mut information, flags) {
                0 => information.si_pid(),
                _ => 0,
            }
        };
        let child = self.children.get(&pid)?;
        if child.started + SCHEDSTAT_OF_SHORTER < now {
            return None;
        }
        self.schedstat_read_at = Some(now);
        schedstat(Path::new(&format!("/proc/{pid}/schedstat"))).map(|times_ns| (pid, times_ns))
    }

    fn ended(&mut self, pid: libc::pid_t, mut child: Child, mut ended: Ended) {
        match child.ending {
            Some(Ending::TimeLimit) => ended.outcome = Outcome::TimeLimit,
            Some(Ending::MemoryLimit) => ended.outcome = Outcome::MemoryLimit,
            Some(Ending::Killed) => ended.outcome = Outcome::Killed,
            Some(Ending::BadAnswer) | None => {}
        }
        ended.peak_memory_bytes = ended.peak_memory_bytes.max(child.excess_bytes);
        let token = match child.role {
            Role::Task { token } => token,
            Role::Resident { resident } => return self.resident_ended(resident, pid, child, ended),
        };
        let mut exit = Exit::new(token, ended.outcome, child.started);
        exit.wall_us = micros(child.started.elapsed());
        exit.cpu_us = ended.cpu_us;
        exit.peak_memory_bytes = ended.peak_memory_bytes;
        exit.family_memory_bytes = child.family_bytes;
        exit.was_signalled = child.was_signalled;
        exit.scheduled_ns = ended.scheduled_ns;
        exit.read_bytes = ended.read_bytes;
        exit.write_bytes = ended.write_bytes;
        let (stdout, stderr, was_last_of_group) = (child.stdout, child.stderr, ended.was_last_of_group);
        if child.ending.is_some() {
            let exit = Box::new(exit);
            self.lingering.add(&mut child, Then::Tell { exit, stdout, stderr, was_last_of_group });
        } else {
            self.tell(exit, stdout, stderr, was_last_of_group);
        }
    }

    /// Adds the rest of a task's output to its exit and passes it on.
    fn tell(
        &mut self,
        mut exit: Exit,
        stdout: Option<PipeSlot>,
        stderr: Option<PipeSlot>,
        was_last_of_group: bool,
    ) {
        let is_captured = stdout.is_some() || stderr.is_some();
        let is_alone = is_captured && was_last_of_group && self.has_no_strays();
        (exit.stdout, exit.is_stdout_truncated) = self.finish_output(stdout, is_alone);
        (exit.stderr, exit.is_stderr_truncated) = self.finish_output(stderr, is_alone);
        self.exits.push(exit);
    }

    /// Returns the kept output of a program, and releases its pipe.
    pub(super) fn finish_output(&mut self, slot: Option<PipeSlot>, is_alone: bool) -> (Vec<u8>, bool) {
        slot.map_or((Vec::new(), false), |slot| self.pipes.finish(slot, &mut self.buffer, is_alone))
    }

    /// Returns whether this process is the guard's only child: then no process of an ended task is alive.
    fn has_no_strays(&self) -> bool {
        let Some(strays) = &self.strays else { return false };
        let mut list = [0; 32];
        let n = strays.read_at(&mut list, 0).unwrap_or(0);
        list.get(..n)
            .is_some_and(|list| list.split(|byte| *byte == b' ').filter(|pid| !pid.is_empty()).count() == 1)
    }

    fn act_on_deadlines(&mut self, is_busy: bool) {
        let Some(next) = self.next_deadline() else { return };
        let now = Instant::now();
        if now < next {
            return;
        }
        for child in self.children.values_mut() {
            if child.due.is_some() || child.deadline.is_none_or(|deadline| deadline > now) {
                continue;
            }
            match child.ending {
                // A resident program has nothing to clean up for a single task.
                None if matches!(child.role, Role::Resident { .. }) => {
                    child.end(Ending::TimeLimit, Duration::ZERO);
                }
                None => child.end(Ending::TimeLimit, child.grace),
                Some(ending) => child.end(ending, Duration::ZERO),
            }
        }
        if self.memory_check_at.is_some_and(|at| at <= now) {
            self.check_memory(now);
        }
        end_due(&mut self.children, now, is_busy);
        for then in self.lingering.look_after(now) {
            self.go_on(then);
        }
    }

    fn go_on(&mut self, then: Then) {
        match then {
            Then::Tell { exit, stdout, stderr, was_last_of_group } => {
                self.tell(*exit, stdout, stderr, was_last_of_group);
            }
            Then::Restart { resident } => self.restart_resident(resident),
        }
    }

    fn check_memory(&mut self, now: Instant) {
        let mut next: Option<Instant> = None;
        for (pid, child) in &mut self.children {
            if child.ending.is_none() && now >= child.memory_seen_at + child.memory_interval() {
                child.see_memory(*pid, now);
            }
            let at = now.max(child.memory_seen_at) + child.memory_interval();
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        self.memory_check_at = next;
    }

    /// Polls a descriptor.
    ///
    /// # Errors
    /// There is no memory left, or there are too many polled descriptors.
    pub(super) fn poll(&self, fd: RawFd, watched: Watched, events: i32) -> io::Result<()> {
        self.poll_key(fd, watched.key(), events)
    }

    fn poll_key(&self, fd: RawFd, key: u64, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: key };
        // SAFETY: the event is a local.
        if unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Stops polling a descriptor.
    pub(super) fn unpoll(&self, fd: RawFd) {
        // SAFETY: no memory is passed. It fails only if the descriptor is not polled, which is the aim.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) };
    }

    /// Kills and reaps all children, without an [`Exit`].
    pub(super) fn kill_all(&mut self) {
        for pid in self.children.keys() {
            kill_group(*pid, libc::SIGKILL);
        }
        for (pid, _) in self.children.drain() {
            // SAFETY: a child of this thread; no memory is passed.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Returns whether a process ignores a signal, from the text of its `/proc/PID/status`.
fn is_ignored(status: &str, signal: libc::c_int) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|rest| rest & 1 == 1)
}

impl Watched {
    fn key(self) -> u64 {
        match self {
            Watched::Pipe(PipeSlot(slot)) => (slot as u64) << 2,
            Watched::Answers(pid) => u64::from(pid.unsigned_abs()) << 2 | 1,
            Watched::Questions(pid) => u64::from(pid.unsigned_abs()) << 2 | 2,
        }
    }

    fn from_key(key: u64) -> Watched {
        let (number, kind) = (key >> 2, key & 3);
        let pid = libc::pid_t::try_from(number).unwrap_or(0);
        match kind {
            0 => Watched::Pipe(PipeSlot(usize::try_from(number).unwrap_or(usize::MAX))),
            1 => Watched::Answers(pid),
            _ => Watched::Questions(pid),
        }
    }
}

/// Opens closed standard descriptors: a daemon may start without them, and a pipe must not get a number from
/// 0 to 2.
fn open_standard_descriptors() {
    // SAFETY: a constant string and a descriptor number.
    unsafe {
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_ignored;

    #[test]
    fn ignored_signals_are_those_of_the_mask() {
        let status =
            "Name:\tsh\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000005001\nSigCgt:\t0000000000000002\n";
        let ignored: Vec<i32> = (1..=64).filter(|signal| is_ignored(status, *signal)).collect();
        assert_eq!(ignored, [libc::SIGHUP, libc::SIGPIPE, libc::SIGTERM]);
        assert!(!is_ignored("", libc::SIGTERM) && !is_ignored(status, 0));
    }
}
