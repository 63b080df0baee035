//! Processes, outside any async runtime: starts them at the lowest cost, watches and measures them.
//!
//! A [`Spawner`] owns plain threads. Each thread starts its own children and waits for them; it wakes up
//! periodically only to check memory. After a program has ended by itself, its process group is killed
//! here, and the guard ([`crate::guard::keeper`]) kills the other processes that it left. If the spawner ends
//! a program, it also ends all processes that the program has started.

mod capture;
mod child;
mod ending;
mod family;
mod memory;
mod prepare;
mod processes;
mod program;
mod resident;
mod residents;
mod schedstat;
mod start;
mod turns;
mod wake;

use std::{
    collections::VecDeque,
    convert::Infallible,
    ffi::CString,
    io, mem,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

pub use self::resident::Ask;
pub(crate) use self::{memory::family, schedstat::schedstat};
use self::{
    processes::Processes,
    turns::{Line, Turns},
    wake::Bell,
};
use crate::guard::keeper;

/// A program to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The caller's id, returned in the [`Exit`].
    pub token: u64,
    /// The slot. Programs of one slot run one after another, in the order of their launches.
    pub slot: usize,
    /// The program and its arguments. A program without a slash is searched in the environment's PATH.
    pub argv: Vec<String>,
    /// All variables of its environment.
    pub environment: Environment,
    /// Its working directory; `None`: the agent's.
    pub cwd: Option<PathBuf>,
    /// Whether a missing working directory is created.
    pub makes_cwd: bool,
    /// File for its standard input, relative to the agent's working directory; `None`: `/dev/null`.
    pub stdin: Option<PathBuf>,
    /// Target of its standard output.
    pub stdout: Output,
    /// Target of its standard error.
    pub stderr: Output,
    /// The longest time that it may run.
    pub time_limit: Option<Duration>,
    /// The most memory that it and its descendants may hold, in bytes; 0: no limit.
    pub memory_limit_bytes: u64,
    /// The CPUs to which it is bound; empty: all.
    pub cpus: Vec<usize>,
    /// The time between SIGTERM and SIGKILL after its time limit.
    pub grace: Duration,
}

/// An environment: variables that many programs share, and the program's own. No name may be in both lists.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `NAME=value`, built once for all tasks of a job.
    pub shared: Arc<Vec<CString>>,
    /// `NAME=value` of this program alone.
    pub own: Vec<CString>,
}

/// The target of an output stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Nowhere: `/dev/null`.
    Discard,
    /// The [`Exit`], up to `limit` bytes: head and tail, with a line between them about the missing bytes.
    Archive {
        /// The most bytes to keep.
        limit: usize,
    },
    /// This file, overwritten; missing parent directories are created.
    File(PathBuf),
}

/// The end of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It exited by itself, with this exit code.
    Code(i32),
    /// This signal ended it, sent by another process.
    Signal(i32),
    /// It reached its time limit.
    TimeLimit,
    /// It held more memory than its limit.
    MemoryLimit,
    /// [`Spawner::kill`] ended it, or [`Spawner::withdraw`] prevented its start.
    Killed,
    /// A resident program gave an invalid answer, or ended without one.
    BadAnswer {
        /// The fault of the answer.
        what: String,
    },
    /// It was not started.
    StartFailed {
        /// The cause, as text.
        what: String,
        /// Whether the cause is the node, so that another node may do better.
        node: bool,
    },
}

/// The end of a program, or its failed start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exit {
    /// The launch's token.
    pub token: u64,
    /// The kind of end.
    pub outcome: Outcome,
    /// When it was started.
    pub started: Instant,
    /// Its runtime in microseconds.
    pub wall_us: u64,
    /// User and system CPU time of it and the descendants that it waited for, in microseconds.
    pub cpu_us: u64,
    /// The most memory that one of its processes held, in bytes; 0 if that was less than the agent itself
    /// held at the start, which the kernel counts in. After a memory limit: the memory of all its processes.
    pub peak_memory_bytes: u64,
    /// The largest sum of memory that was measured for all its processes, in bytes; 0 if it was never
    /// measured.
    pub family_memory_bytes: u64,
    /// Bytes read from block devices.
    pub read_bytes: u64,
    /// Bytes written to block devices.
    pub write_bytes: u64,
    /// The kept part of its standard output.
    pub stdout: Vec<u8>,
    /// The kept part of its standard error.
    pub stderr: Vec<u8>,
    /// Whether the kernel killed it for lack of memory, as far as the kernel's counters show it.
    pub is_out_of_memory: bool,
    /// Time that its main thread ran, and time that it was ready and waited for a CPU, in nanoseconds. It is
    /// measured for some short tasks only.
    pub scheduled_ns: Option<[u64; 2]>,
    /// Whether it got the signal of [`Spawner::note_signal`] and did not ignore it.
    pub was_signalled: bool,
    /// Whether standard output was longer than its limit.
    pub is_stdout_truncated: bool,
    /// Whether standard error was longer than its limit.
    pub is_stderr_truncated: bool,
}

impl Exit {
    pub(crate) fn new(token: u64, outcome: Outcome, started: Instant) -> Exit {
        Exit {
            token,
            outcome,
            started,
            wall_us: 0,
            cpu_us: 0,
            peak_memory_bytes: 0,
            family_memory_bytes: 0,
            read_bytes: 0,
            write_bytes: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            is_out_of_memory: false,
            scheduled_ns: None,
            was_signalled: false,
            is_stdout_truncated: false,
            is_stderr_truncated: false,
        }
    }
}

/// A request for the output of a running program.
pub struct Peek {
    /// The launch's token.
    pub token: u64,
    /// The launch's slot.
    pub slot: usize,
    /// The first byte wanted, of standard output and of standard error.
    pub from: [u64; 2],
    /// The most bytes of each stream.
    pub n_max: usize,
    /// Gets the output, on one of the spawner's threads; not called if the program does not run.
    pub tell: Box<dyn FnOnce(Peeked) + Send>,
}

/// Output of a running program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peeked {
    /// Standard output and standard error: the position of the first byte, and the bytes.
    pub streams: [(u64, Vec<u8>); 2],
}

enum Order {
    Launch(Box<Launch>),
    Ask(Box<Ask>),
    Peek(Box<Peek>),
    Kill { token: u64, grace: Duration },
    NoteSignal { signal: libc::c_int },
    Withdraw { token: u64 },
    StopResident { resident: u64 },
    End,
}

/// The queue of orders for one thread.
struct Inbox {
    orders: Mutex<VecDeque<Order>>,
    bell: Bell,
}

impl Inbox {
    fn send(&self, order: Order) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.push_back(order);
        // The thread takes all orders at once, so only the first one has to ring.
        if orders.len() == 1 {
            self.bell.ring();
        }
    }

    fn take(&self) -> VecDeque<Order> {
        mem::take(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How long threads may take to end: they kill at once, but may have many programs to start. A thread that
/// hangs, for example on a dead file server, must not keep the process; the guard ends the programs that it
/// leaves.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Threads that start programs and wait for them.
///
/// Dropping it kills all running programs.
pub struct Spawner {
    inboxes: Vec<Arc<Inbox>>,
    threads: Vec<thread::JoinHandle<()>>,
    /// Closed when all threads have ended. It is never locked; the mutex only makes the spawner `Sync`.
    living: Mutex<mpsc::Receiver<Infallible>>,
}

impl Spawner {
    /// Starts `n_threads` threads. One of them passes the ends of programs to `sink`, those of each slot in
    /// order. While other programs wait for the slot, an end may be passed some milliseconds late.
    ///
    /// From now on SIGCHLD is blocked in the calling thread and in the threads that it starts.
    ///
    /// # Errors
    /// There are no threads, descriptors or memory left.
    pub fn start(n_threads: usize, sink: impl Fn(Vec<Exit>) + Send + Sync + 'static) -> io::Result<Spawner> {
        // The spawner's threads handle SIGCHLD while they wait; other threads would only be interrupted.
        block_child_signal();
        let guard = keeper::living_guard();
        let sink = Arc::new(sink);
        let (lives, living) = mpsc::channel();
        let mut spawner = Spawner { inboxes: Vec::new(), threads: Vec::new(), living: Mutex::new(living) };
        // Moved behind the spawner to be dropped before it: its drop waits for this.
        let lives = lives;
        for _ in 0..n_threads.max(1) {
            let (sink, (send, receive)) = (Arc::clone(&sink), mpsc::channel());
            let lives = lives.clone();
            let thread = thread::Builder::new().name("pilotfish-spawn".into()).spawn(move || {
                let _lives = lives;
                // Children belong to the thread that started them, so the thread itself makes the table.
                match Processes::new(guard) {
                    Ok(processes) => {
                        let inbox = Arc::new(Inbox { orders: Mutex::default(), bell: processes.bell() });
                        // The receiver waits for exactly this message.
                        let _ = send.send(Ok(Arc::clone(&inbox)));
                        serve(processes, &inbox, &*sink);
                    }
                    // The receiver waits for this message.
                    Err(error) => drop(send.send(Err(error))),
                }
            })?;
            spawner.threads.push(thread);
            let inbox = receive.recv().map_err(|_| io::Error::other("the spawning thread ended at once"))?;
            spawner.inboxes.push(inbox?);
        }
        Ok(spawner)
    }

    /// Starts a program once its slot is free. One [`Exit`] follows in any case.
    pub fn launch(&self, launch: Launch) {
        self.inbox(launch.slot as u64).send(Order::Launch(Box::new(launch)));
    }

    /// Gives a task to a resident program and starts the program if it does not run. One [`Exit`] follows.
    pub fn ask(&self, ask: Ask) {
        self.inbox(ask.resident).send(Order::Ask(Box::new(ask)));
    }

    /// Reads what a running program has written to archived streams, at no cost for the program.
    pub fn peek(&self, peek: Peek) {
        self.inbox(peek.slot as u64).send(Order::Peek(Box::new(peek)));
    }

    /// Withdraws a program that waits for its slot; does nothing if it has started.
    pub fn withdraw(&self, token: u64) {
        for inbox in &self.inboxes {
            inbox.send(Order::Withdraw { token });
        }
    }

    /// Ends a program with all processes that it has started: SIGTERM, then SIGKILL after `grace`. Does
    /// nothing if it has ended.
    pub fn kill(&self, token: u64, grace: Duration) {
        for inbox in &self.inboxes {
            inbox.send(Order::Kill { token, grace });
        }
    }

    /// Notes that another process has sent this signal to all processes. The exits of running programs that
    /// do not ignore it say so ([`Exit::was_signalled`]).
    pub fn note_signal(&self, signal: libc::c_int) {
        for inbox in &self.inboxes {
            inbox.send(Order::NoteSignal { signal });
        }
    }

    /// Ends a resident program that is no longer needed.
    pub fn stop_resident(&self, resident: u64) {
        for inbox in &self.inboxes {
            inbox.send(Order::StopResident { resident });
        }
    }

    /// Returns the inbox of a slot or a resident program: one thread handles all of its orders.
    fn inbox(&self, number: u64) -> &Inbox {
        let n = self.inboxes.len() as u64;
        &self.inboxes[usize::try_from(number % n).unwrap_or(0)]
    }
}

impl Spawner {
    /// Kills all running programs; returns whether all threads have ended within `limit`.
    fn end(&mut self, limit: Duration) -> bool {
        for inbox in self.inboxes.drain(..) {
            inbox.send(Order::End);
        }
        let living = self.living.get_mut().unwrap_or_else(PoisonError::into_inner);
        if living.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            return false;
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its message; there is nothing left to end.
            let _ = thread.join();
        }
        true
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        if !self.end(END_LIMIT) {
            tracing::warn!("a thread that starts tasks hangs; ending without it");
        }
    }
}

fn block_child_signal() {
    // SAFETY: the set is initialised before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// The main loop of one thread.
fn serve(mut processes: Processes, inbox: &Inbox, sink: &dyn Fn(Vec<Exit>)) {
    let mut turns = Turns::default();
    loop {
        let mut orders = inbox.take();
        let mut has_looked_up = false;
        while let Some(order) = orders.pop_front() {
            match order {
                Order::Launch(launch) => {
                    let Some(launch) = turns.launch(*launch) else { continue };
                    processes.launch(launch);
                    // Many starts take long, so ended programs are handled in between.
                    if !orders.is_empty() {
                        has_looked_up = true;
                        processes.wait(Some(Duration::ZERO));
                        tell(&mut processes, &mut turns, sink);
                    }
                }
                Order::Ask(ask) => {
                    turns.enter(ask.token, Line::Resident(ask.resident));
                    processes.ask(*ask);
                }
                Order::Peek(peek) => processes.peek(*peek),
                Order::Kill { token, .. } | Order::Withdraw { token } if turns.withdraw(token) => {
                    processes.exits.push(Exit::new(token, Outcome::Killed, Instant::now()));
                }
                Order::Kill { token, grace } => processes.kill(token, grace),
                Order::NoteSignal { signal } => processes.note_signal(signal),
                Order::Withdraw { token } => processes.withdraw_asked(token),
                Order::StopResident { resident } => processes.stop_resident(resident),
                Order::End => return processes.kill_all(),
            }
        }
        // An order that arrives after `take` rings the bell, but a look at ended programs silences it.
        let timeout = turns.due_at().map(|at| at.saturating_duration_since(Instant::now()));
        processes.wait(if has_looked_up { Some(Duration::ZERO) } else { timeout });
        tell(&mut processes, &mut turns, sink);
    }
}

/// Passes on ends that are due, and starts the programs that waited for their slots.
fn tell(processes: &mut Processes, turns: &mut Turns, sink: &dyn Fn(Vec<Exit>)) {
    loop {
        let exits = processes.take_exits();
        if exits.is_empty() {
            break;
        }
        for exit in exits {
            if let Some(next) = turns.ended(exit) {
                processes.launch(next);
            }
        }
    }
    let due = turns.take_due();
    if !due.is_empty() {
        sink(due);
    }
}

#[cfg(test)]
mod tests;
