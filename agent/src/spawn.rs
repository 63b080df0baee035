//! Processes, outside any async runtime: started the cheapest correct way, watched, and measured.
//!
//! A [`Spawner`] owns plain threads. Each starts its own children and waits for them; nothing is
//! waked periodically unless something has a memory limit. What a program that ended by itself leaves
//! running is the guard's business ([`crate::guard::keeper`]), except its process group, which is killed here;
//! one that is ended here takes all that it has started with it.

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
    /// The caller's own number; comes back with the [`Exit`].
    pub token: u64,
    /// Programs for one slot run one after the other, in the order of their launches.
    pub slot: usize,
    /// The program and its arguments. A program without a slash is searched in the environment's PATH.
    pub argv: Vec<String>,
    /// Its environment, all of it.
    pub environment: Environment,
    /// Where it runs; `None`: where we are.
    pub cwd: Option<PathBuf>,
    /// Whether that folder is made when it is not there.
    pub makes_cwd: bool,
    /// What it reads; `None`: nothing. Relative to our own folder.
    pub stdin: Option<PathBuf>,
    /// Where its standard output goes.
    pub stdout: Output,
    /// Where its standard error goes.
    pub stderr: Output,
    /// How long it may run.
    pub time_limit: Option<Duration>,
    /// How much memory it and its descendants may hold, in bytes; 0: any.
    pub memory_limit_bytes: u64,
    /// The CPUs it is bound to; empty: not bound.
    pub cpus: Vec<usize>,
    /// How long it has between SIGTERM and SIGKILL when its time is over.
    pub grace: Duration,
}

/// An environment: what many programs share, and what is one's own. No name may be in both.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `NAME=value`, built once for all tasks of a job.
    pub shared: Arc<Vec<CString>>,
    /// `NAME=value` of this program alone.
    pub own: Vec<CString>,
}

/// Where an output stream goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Nowhere.
    Discard,
    /// Into [`Exit`], up to so many bytes: head and tail, with a line between that says what is missing.
    Archive {
        /// Bytes kept.
        limit: usize,
    },
    /// Into this file, made anew, with the folders above it.
    File(PathBuf),
}

/// How a program ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal, which did not come from here.
    Signal(i32),
    /// Its time limit was over.
    TimeLimit,
    /// It held more memory than it may.
    MemoryLimit,
    /// By [`Spawner::kill`], or not at all because of [`Spawner::withdraw`].
    Killed,
    /// A resident program answered what is no answer, or ended without one.
    BadAnswer {
        /// What was wrong with it.
        what: String,
    },
    /// It did not start.
    StartFailed {
        /// What failed, in words.
        what: String,
        /// Whether the node is to blame and another one may do better.
        node: bool,
    },
}

/// A program has ended, or has not started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exit {
    /// The launch's number.
    pub token: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was started.
    pub started: Instant,
    /// How long it ran, in microseconds.
    pub wall_us: u64,
    /// CPU time of it and the descendants it waited for, user and system, in microseconds.
    pub cpu_us: u64,
    /// The most memory that one of its processes held, in bytes; 0 if that was less than the agent itself
    /// held when it started it, which the kernel counts in. After a memory limit: what all of them held.
    pub peak_memory_bytes: u64,
    /// The most memory that all its processes were seen to hold together, in bytes; 0 if nobody looked.
    pub family_memory_bytes: u64,
    /// Bytes read from block devices.
    pub read_bytes: u64,
    /// Bytes written to block devices.
    pub write_bytes: u64,
    /// What it wrote to an archived standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to an archived standard error.
    pub stderr: Vec<u8>,
    /// Whether the kernel ended it because memory ran out, as far as the kernel counts that.
    pub is_out_of_memory: bool,
    /// How long its main thread computed, and was ready and waited for a CPU, in nanoseconds. Only some short tasks have it.
    pub scheduled_ns: Option<[u64; 2]>,
    /// Whether it did not ignore the signal that [`Spawner::note_signal`] told of.
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

/// What a running program has written so far is wanted, from some place on.
pub struct Peek {
    /// The launch's number.
    pub token: u64,
    /// The launch's slot.
    pub slot: usize,
    /// From which byte of standard output and of standard error on.
    pub from: [u64; 2],
    /// Bytes of each at most.
    pub n_max: usize,
    /// Is given what there is, on one of the threads; not called if the program does not run.
    pub tell: Box<dyn FnOnce(Peeked) + Send>,
}

/// What a running program has written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peeked {
    /// Standard output and standard error: which byte is the first one here, and the bytes.
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

/// One thread's inbox.
struct Inbox {
    orders: Mutex<VecDeque<Order>>,
    bell: Bell,
}

impl Inbox {
    fn send(&self, order: Order) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.push_back(order);
        // Whoever sent the first has rung for all that are taken with it.
        if orders.len() == 1 {
            self.bell.ring();
        }
    }

    fn take(&self) -> VecDeque<Order> {
        mem::take(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How long threads may take to end: they kill at once, but may be starting much. One that hangs (a file server that
/// does not answer) must not keep the process; what it leaves running is the guard's.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Threads that start programs and wait for them.
///
/// Dropping it kills what still runs.
pub struct Spawner {
    inboxes: Vec<Arc<Inbox>>,
    threads: Vec<thread::JoinHandle<()>>,
    /// Is closed when all threads have ended. Never locked: it lets threads share the spawner.
    living: Mutex<mpsc::Receiver<Infallible>>,
}

impl Spawner {
    /// Starts `n_threads` threads; programs' ends are given to `sink`, on one of them, those of each slot
    /// in order. While others wait for the slot, an end may be told some milliseconds late.
    ///
    /// SIGCHLD is blocked in the calling thread from now on, and in those that it starts.
    ///
    /// # Errors
    /// No threads, descriptors or memory left.
    pub fn start(n_threads: usize, sink: impl Fn(Vec<Exit>) + Send + Sync + 'static) -> io::Result<Spawner> {
        // The threads handle it while they wait; here it would only interrupt.
        block_child_signal();
        let guard = keeper::living_guard();
        let sink = Arc::new(sink);
        let (lives, living) = mpsc::channel();
        let mut spawner = Spawner { inboxes: Vec::new(), threads: Vec::new(), living: Mutex::new(living) };
        // Ours goes before the spawner, which would wait for it where this fails.
        let lives = lives;
        for _ in 0..n_threads.max(1) {
            let (sink, (send, receive)) = (Arc::clone(&sink), mpsc::channel());
            let lives = lives.clone();
            let thread = thread::Builder::new().name("pilotfish-spawn".into()).spawn(move || {
                let _lives = lives;
                // The children belong to the thread that started them, so it makes the table itself.
                match Processes::new(guard) {
                    Ok(processes) => {
                        let inbox = Arc::new(Inbox { orders: Mutex::default(), bell: processes.bell() });
                        // The receiver waits for exactly this message.
                        let _ = send.send(Ok(Arc::clone(&inbox)));
                        serve(processes, &inbox, &*sink);
                    }
                    // As above.
                    Err(error) => drop(send.send(Err(error))),
                }
            })?;
            spawner.threads.push(thread);
            let inbox = receive.recv().map_err(|_| io::Error::other("the spawning thread ended at once"))?;
            spawner.inboxes.push(inbox?);
        }
        Ok(spawner)
    }

    /// Starts a program, once its slot is free. Whatever becomes of it, one [`Exit`] follows.
    pub fn launch(&self, launch: Launch) {
        self.inbox(launch.slot as u64).send(Order::Launch(Box::new(launch)));
    }

    /// Gives a task to a resident program, which is started if it is not there. One [`Exit`] follows.
    pub fn ask(&self, ask: Ask) {
        self.inbox(ask.resident).send(Order::Ask(Box::new(ask)));
    }

    /// Looks at what a running program has written to archived streams. Costs it nothing.
    pub fn peek(&self, peek: Peek) {
        self.inbox(peek.slot as u64).send(Order::Peek(Box::new(peek)));
    }

    /// Starts a program no more that waits for its slot; one that has begun goes on.
    pub fn withdraw(&self, token: u64) {
        for inbox in &self.inboxes {
            inbox.send(Order::Withdraw { token });
        }
    }

    /// Ends a program with all that it has started: SIGTERM, SIGKILL after `grace`. Nothing happens if it has ended.
    pub fn kill(&self, token: u64, grace: Duration) {
        for inbox in &self.inboxes {
            inbox.send(Order::Kill { token, grace });
        }
    }

    /// All processes got this signal from somebody else. Each program that runs and does not ignore it is known by its exit
    /// ([`Exit::was_signalled`]).
    pub fn note_signal(&self, signal: libc::c_int) {
        for inbox in &self.inboxes {
            inbox.send(Order::NoteSignal { signal });
        }
    }

    /// Ends a resident program that is not needed any more.
    pub fn stop_resident(&self, resident: u64) {
        for inbox in &self.inboxes {
            inbox.send(Order::StopResident { resident });
        }
    }

    /// What runs in one slot, or is asked of one resident program, is one thread's business.
    fn inbox(&self, number: u64) -> &Inbox {
        let n = self.inboxes.len() as u64;
        &self.inboxes[usize::try_from(number % n).unwrap_or(0)]
    }
}

impl Spawner {
    /// Kills what still runs; whether all threads have ended by then.
    fn end(&mut self, limit: Duration) -> bool {
        for inbox in self.inboxes.drain(..) {
            inbox.send(Order::End);
        }
        let living = self.living.get_mut().unwrap_or_else(PoisonError::into_inner);
        if living.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            return false;
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; there is nothing left to end.
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

/// One thread's life.
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
                    // Starting many takes long: a look at what has ended meanwhile.
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
        // An order that comes after the look into the inbox rings the bell; but a look at what has ended
        // silences it.
        let timeout = turns.due_at().map(|at| at.saturating_duration_since(Instant::now()));
        processes.wait(if has_looked_up { Some(Duration::ZERO) } else { timeout });
        tell(&mut processes, &mut turns, sink);
    }
}

/// Tells what has ended, if it is time, and starts what has waited for that.
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
