//! The pilot's loop: passes answers, exits, signals and timers to [`PilotCore`] and carries out its actions.
//!
//! Does not decide when to run tasks or to report. It owns all I/O: connection, processes, spool, scratch
//! directories, signals, and the clock, which counts from the pilot's start.

mod error;
mod exchange;
mod exits;
mod files;
mod outputs;
mod suspects;
mod tails;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    future::{pending, ready},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::pilot::{JoinDocument, RegisterAnswer, Tail};
use scheduler::{
    ids::{JobId, PilotId, TaskId},
    pilot::{Ending, Lane, PilotAction, PilotCore, PilotEvent, PilotLimits},
    pull::{Effort, LeaveReason, PullAnswer},
    results::{FailureKind, Usage},
    time::{Span, Time},
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub use self::error::DriverError;
use self::{
    files::Files,
    outputs::Outputs,
    suspects::Suspects,
    tails::{Tails, Told},
};
use crate::{
    guard::{keeper, scratch::Scratch},
    node::{
        Node,
        memory_killer::MemoryKiller,
        signals::{self, Signals},
        slots::{Place, Slots},
        starvation::Starvation,
    },
    session::{
        arrival::{self, Arrival},
        client::{Client, ClientError},
        spool::Spool,
    },
    spawn::{Exit, Spawner},
    staging::Moved,
    sys::watch,
    tasks::{Attempt, LearnedJob, Surroundings, Work},
};

/// The longest time between SIGTERM and SIGKILL for a task.
const GRACE: Duration = Duration::from_secs(5);
/// Time after a batch system's signal until running tasks are given back, if the notice is unknown. Batch
/// systems wait 30 s or more between their signal and SIGKILL.
const BATCH_GRACE: Duration = Duration::from_secs(20);
/// How long a stopping pilot tries to deliver its last reports, unless the end of its walltime leaves less
/// time.
const FAREWELL: Duration = Duration::from_secs(15);
/// A signal to all processes of a batch job reaches the pilot twice: directly and through the guard.
const SIGNAL_ECHO: Duration = Duration::from_millis(300);
/// One thread starts thousands of processes per second, so only large nodes need more.
const CORES_PER_THREAD: usize = 16;
/// The most batches of exits that the loop handles before it looks at other events.
const N_EXITS: usize = 64;
/// How long a pilot without a walltime waits for a manager that does not answer.
const SILENCE_MAX: Duration = Duration::from_secs(24 * 3600);

/// An event from outside.
enum News {
    Answered {
        lane: Lane,
        answer: Box<PullAnswer>,
    },
    Trouble {
        lane: Lane,
        report: Option<u64>,
        error: ClientError,
    },
    RetryDue {
        lane: Lane,
    },
    Registered(Box<RegisterAnswer>),
    NotRegistered(ClientError),
    Moved(Moved),
    /// The answer to output that was sent to the manager, or (`None`) the time to send more.
    Told(Option<Told>),
    /// Output that running tasks have written since the last look, with their tokens.
    Wrote(Vec<(u64, Tail)>),
}

/// A task that has started.
struct Running {
    task: TaskId,
    attempt: u32,
    /// When the task was given to the spawner.
    since: Instant,
    /// The task's place, or the place of the task that it waits for; `None`: its process has ended.
    place: Option<Arc<Place>>,
    /// The number of the slot; it stays valid after `place` is gone.
    slot: usize,
    /// Whether other tasks ran when the task's process ended.
    had_company: bool,
    scratch: Option<PathBuf>,
    /// The stager's token for the task's input files.
    files: Option<u64>,
    resources_bytes: u64,
    n_cores: u32,
    time_limit: Option<Span>,
    /// When the task was started, if its slot was free then.
    begun_at: Option<Instant>,
}

struct Driver {
    started: Instant,
    core: PilotCore,
    client: Client,
    join: JoinDocument,
    arrival: Arrival,
    session: String,
    pilot: PilotId,
    surroundings: Surroundings,
    spawner: Spawner,
    slots: Slots,
    jobs: HashMap<JobId, LearnedJob>,
    running: HashMap<u64, Running>,
    /// Start times and I/O of the tasks that have ended since the last pull, by job.
    efforts: BTreeMap<JobId, Effort>,
    /// Time that tasks were ready to run without a CPU, in microseconds, by job.
    starved: BTreeMap<JobId, u64>,
    starvation: Starvation,
    tokens: HashMap<TaskId, u64>,
    next_token: u64,
    tails: Tails,
    outputs: Outputs,
    spool: Spool,
    /// Stands before `scratch`: fields are dropped in order, and writing must stop before the directories are
    /// removed.
    files: Files,
    scratch: Scratch,
    news: UnboundedSender<News>,
    n_failed: [u32; 2],
    away_since: Option<Instant>,
    is_registering: bool,
    /// When the last report was sent.
    reported_at: Instant,
    /// An acknowledgement without tasks, and the time until which it is held back.
    held: Option<(Instant, Box<PullAnswer>)>,
    leaving: Option<LeaveReason>,
    /// The longest time for the last exchange with the manager.
    farewell: Duration,
    /// Ends of tasks that the platform may have caused.
    suspects: Suspects,
    /// Whether running tasks are killed because the pilot has no time left.
    has_given_up: bool,
    memory_killer: MemoryKiller,
    /// When the platform or a person signalled the pilot for the first time.
    signalled_at: Option<Instant>,
    /// Whether the pilot was signalled and the time for its last exchange has not begun.
    is_told_to_end: bool,
    /// When a draining pilot kills the tasks that still run.
    stop_at: Option<Instant>,
    /// When the pilot stops trying to reach the manager: at the end of its walltime, or some time after it
    /// was stopped.
    give_up_at: Option<Instant>,
}

/// Runs a pilot until it has left. `started`: the beginning of its clock.
///
/// # Errors
/// See [`DriverError`]. After any error, no process that the pilot has started is running.
pub async fn drive(join: JoinDocument, node: Node, started: Instant) -> Result<LeaveReason, DriverError> {
    let mut signals = Signals::new().map_err(|source| DriverError::System { what: "signals", source })?;
    let client = Client::new(&join.url, join.certificate_sha256.as_deref())?;
    let (exits_in, mut exits) = unbounded_channel();
    let (news_in, mut news) = unbounded_channel();
    let (walltime_end, margin) = arrival::walltime(&join, &node, started);
    let folder = PathBuf::from(&join.folder);
    let place = node.place();
    let mut spool = arrival::open_spool(&folder, &place)?;
    let mut arrival = Arrival::new(&join, node, walltime_end, (spool.nonce(), spool.predecessor()), started);
    // This comes before other threads start: it blocks SIGCHLD, which they inherit. Otherwise the end of each
    // task would interrupt them.
    let n_threads = (arrival.capacity.cores as usize).div_ceil(CORES_PER_THREAD).min(8);
    let spawner = Spawner::start(n_threads, move |exits| {
        // The receiver is gone only when the pilot ends; then no exit is needed.
        let _ = exits_in.send(exits);
    })
    .map_err(|source| DriverError::System { what: "threads", source })?;
    let scratch =
        Scratch::new(&folder, &place).map_err(|source| DriverError::System { what: "threads", source })?;

    // This may fail, so it comes first: a pilot that registers and ends is replaced again and again.
    let starvation = Starvation::start().map_err(|source| DriverError::System { what: "threads", source })?;
    let registering = arrival.register(&client, &join.token, &mut spool);
    let answer = tokio::select! {
        answer = registering => answer?,
        () = signals.next() => return Err(DriverError::NotRegistered { url: join.url.clone() }),
        pid = watched(join.watch_pid) => return Err(DriverError::Abandoned { pid }),
        () = until(walltime_end) => return Err(DriverError::NotRegistered { url: join.url.clone() }),
    };
    let limits = limits(&arrival, (started, walltime_end), margin, answer.poll_wait);
    let pilot = answer.registered.pilot;
    let variable = |name: &str| std::env::var(name).ok();
    let cache = files::cache_place(&join, &place, &variable);
    // The next pilot tries again to remove the rest.
    let _ = files::remove_dead_caches(&join, &place, &variable);
    tracing::info!(%pilot, tag = %join.tag, capacity = %arrival.capacity, "registered");
    let mut driver = Driver {
        started,
        core: PilotCore::new(limits),
        client,
        session: answer.session.clone(),
        pilot,
        surroundings: Surroundings::of_this_process((pilot, &answer.platform), GRACE.min(margin / 2)),
        spawner,
        slots: Slots::new(&arrival.cpus_to_bind(), arrival.gpus()),
        join,
        arrival,
        jobs: HashMap::new(),
        running: HashMap::new(),
        efforts: BTreeMap::new(),
        starved: BTreeMap::new(),
        starvation,
        tokens: HashMap::new(),
        next_token: 1,
        tails: Tails::default(),
        outputs: Outputs::new(&folder, pilot),
        spool,
        scratch,
        files: Files::new(cache),
        news: news_in,
        n_failed: [0; 2],
        away_since: None,
        is_registering: false,
        reported_at: started,
        held: None,
        leaving: None,
        farewell: FAREWELL.min(margin),
        suspects: Suspects::default(),
        has_given_up: false,
        memory_killer: MemoryKiller::new(Path::new("/")),
        signalled_at: None,
        is_told_to_end: false,
        stop_at: None,
        give_up_at: walltime_end,
    };
    driver.registered(&answer);
    driver.run(&mut exits, &mut news, &mut signals).await
}

fn limits(
    arrival: &Arrival,
    (started, walltime_end): (Instant, Option<Instant>),
    margin: Duration,
    poll_wait: Span,
) -> PilotLimits {
    PilotLimits {
        capacity: arrival.capacity.clone(),
        walltime_end: walltime_end.map(|end| time_of(started, end)),
        walltime_margin: Span(u64::try_from(margin.as_micros()).unwrap_or(u64::MAX)),
        poll_wait,
    }
}

impl Driver {
    async fn run(
        &mut self,
        exits: &mut UnboundedReceiver<Vec<Exit>>,
        news: &mut UnboundedReceiver<News>,
        signals: &mut Signals,
    ) -> Result<LeaveReason, DriverError> {
        let mut batch = Vec::with_capacity(N_EXITS);
        let mut watched = std::pin::pin!(watched(self.join.watch_pid));
        let mut signalled_at: Vec<Instant> = Vec::new();
        loop {
            if let Some(reason) = self.leaving {
                self.say_goodbye(reason).await;
                self.outputs.remove();
                return Ok(reason);
            }
            self.limit_farewell();
            let wakeup = self.next_wakeup();
            tokio::select! {
                n = exits.recv_many(&mut batch, N_EXITS), if !self.running.is_empty() => {
                    tracing::trace!(n, "processes ended");
                    for exit in batch.drain(..).flatten() {
                        self.on_news_of(exit);
                    }
                }
                // After any error, unreported results stay in the spool for the next pilot in this folder.
                Some(news) = news.recv() => if let Err(error) = self.on_news(news) {
                    self.keep_rest();
                    return Err(error);
                },
                () = signals.next() => self.on_each_signal(&mut signalled_at)?,
                pid = &mut watched => {
                    self.keep_rest();
                    return Err(DriverError::Abandoned { pid });
                }
                () = until(wakeup) => {
                    // A pending signal may be the cause of ended tasks, so it is handled first.
                    let is_signalled = tokio::select! {
                        biased;
                        () = signals.next() => true,
                        () = ready(()) => false,
                    };
                    if is_signalled {
                        self.on_each_signal(&mut signalled_at)?;
                    }
                    self.on_wakeup()?;
                }
            }
        }
    }

    fn now(&self) -> Time {
        time_of(self.started, Instant::now())
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let core = self.core.next_wakeup().map(|at| self.started + Duration::from_micros(at.0));
        let silence =
            self.away_since.filter(|_| self.arrival.walltime_end.is_none()).map(|since| since + SILENCE_MAX);
        let held = self.held.as_ref().map(|(until, _)| *until);
        let suspects = self.suspects.until();
        let outputs = self.outputs.due_at();
        [core, outputs, self.stop_at, self.give_up_at, silence, held, suspects].into_iter().flatten().min()
    }

    fn on_wakeup(&mut self) -> Result<(), DriverError> {
        let now = Instant::now();
        let is_silent = self.arrival.walltime_end.is_none()
            && self.away_since.is_some_and(|since| now >= since + SILENCE_MAX);
        if is_silent || self.give_up_at.is_some_and(|at| now >= at) {
            return Err(self.unreported());
        }
        if self.stop_at.take_if(|at| now >= *at).is_some() {
            tracing::info!(n_running = self.core.n_running(), "giving back what still runs");
            self.stop();
            return Ok(());
        }
        if self.outputs.due_at().is_some_and(|at| now >= at) {
            self.keep_outputs();
        } else if self.suspects.until().is_some_and(|until| now >= until) {
            self.believe_suspects(now);
        } else if self.held.as_ref().is_some_and(|(until, _)| now >= *until) {
            self.release();
        } else {
            self.handle(PilotEvent::TimerFired);
        }
        Ok(())
    }

    fn unreported(&mut self) -> DriverError {
        self.keep_rest();
        DriverError::Unreported { url: self.join.url.clone(), n_reports: self.spool.numbers().count() }
    }

    /// Leaves unreported results in the spool for the next pilot in the folder.
    fn keep_rest(&mut self) {
        for action in self.core.seal_rest() {
            // These actions only write reports; they lead to no further events.
            self.perform(action);
        }
        self.spool.spill();
    }

    /// Handles a signal, but ignores its second copy through the guard.
    fn on_each_signal(&mut self, signalled_at: &mut Vec<Instant>) -> Result<(), DriverError> {
        if let Some(signal) = signals::of_all_processes() {
            self.spawner.note_signal(signal);
        }
        if signalled_at.last().is_none_or(|last| last.elapsed() > SIGNAL_ECHO) {
            signalled_at.push(Instant::now());
            self.on_signal(signalled_at.len())?;
        }
        Ok(())
    }

    /// Drains at the first signal; stops at the second one, or if the guard is gone; ends at the third one.
    fn on_signal(&mut self, n_signals: usize) -> Result<(), DriverError> {
        self.signalled_at.get_or_insert_with(Instant::now);
        let are_tasks_signalled = self.judge_suspects();
        if keeper::is_unguarded() || n_signals == 2 {
            tracing::info!(n_running = self.core.n_running(), "told to stop");
            self.stop();
        } else if n_signals == 1 {
            tracing::info!(n_running = self.core.n_running(), "told to end: draining");
            if self.arrival.node.batch_id.is_some() || are_tasks_signalled {
                self.expect_kill();
            }
            self.handle(PilotEvent::Signalled);
            self.is_told_to_end = true;
        } else {
            return Err(self.unreported());
        }
        Ok(())
    }

    /// Expects SIGKILL after a signal to all processes, and sets when running tasks are given back before
    /// that.
    fn expect_kill(&mut self) {
        self.stop_at = Some(Instant::now() + batch_grace(self.arrival.node.notice));
    }

    /// Limits the time of the last exchange after a signal, because its sender does not wait for an absent
    /// manager.
    fn limit_farewell(&mut self) {
        let waits_for_manager = self.core.is_only_delivering() && self.away_since.is_some();
        if self.is_told_to_end && (self.core.is_about_to_leave() || waits_for_manager) {
            self.is_told_to_end = false;
            self.end_soon();
        }
    }

    fn end_soon(&mut self) {
        let latest = Instant::now() + self.farewell;
        self.give_up_at = Some(self.give_up_at.map_or(latest, |at| at.min(latest)));
    }

    fn stop(&mut self) {
        self.end_soon();
        self.stop_at = None;
        self.has_given_up = true;
        self.handle(PilotEvent::StopAsked);
    }

    /// Passes an event to the core and carries out its actions, until there are no more events.
    fn handle(&mut self, event: PilotEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.core.handle(self.now(), event) {
                events.extend(self.perform(action));
            }
        }
        self.files.set_n_to_take(&self.core, self.now());
    }

    /// Carries out one action; returns the event that follows from it at once.
    fn perform(&mut self, action: PilotAction) -> Option<PilotEvent> {
        match action {
            PilotAction::Learn(template) => {
                self.forget(template.job);
                let job = LearnedJob::new(&template, &self.surroundings);
                self.jobs.insert(template.job, job);
            }
            PilotAction::Start { task, attempt, after } => return self.begin(task, attempt, after),
            PilotAction::Withdraw { task } => {
                if let Some(token) = self.tokens.get(&task) {
                    self.spawner.withdraw(*token);
                }
            }
            PilotAction::Kill { task } => {
                if let Some(token) = self.tokens.get(&task) {
                    self.spawner.kill(*token, self.surroundings.grace);
                }
            }
            PilotAction::Stage { task } => return self.stage(task),
            PilotAction::Unstage { task } => self.unstage(task),
            PilotAction::Deliver { task } => return self.deliver(task),
            PilotAction::Meet { is_wanted } => self.meet(is_wanted),
            PilotAction::Look { job, tasks } => return self.look(job, tasks),
            PilotAction::Hunt => return self.hunt(),
            PilotAction::Gave { thief, n_tasks } => self.gave(thief, n_tasks),
            PilotAction::Keep(report) => {
                self.tails.note_report(report.seq);
                self.spool.keep(report, self.away_since.is_some());
            }
            PilotAction::Drop { acknowledged } => self.spool.acknowledge(acknowledged),
            PilotAction::Pull { lane, pull, report } => self.pull(lane, *pull, report),
            PilotAction::Forget { job } => self.forget(job),
            PilotAction::Show => self.show(),
            PilotAction::Leave { reason } => self.leaving = Some(reason),
        }
        None
    }

    /// Starts a task, or queues it behind the task whose place it takes over.
    fn begin(&mut self, task: TaskId, number: u32, after: Option<TaskId>) -> Option<PilotEvent> {
        let begun_at = Instant::now();
        let started_us = self.now().0;
        let token = self.next_token;
        self.next_token += 1;
        let unknown = || FailureKind::Start { what: format!("the template of job {} is missing", task.job) };
        let failed = |kind| {
            let usage = Usage { started_us, ..Usage::default() };
            Some(PilotEvent::Ended { task, ending: Ending::Failed(kind), usage, output: None })
        };
        let shared = after.map(|after| self.place_of(after));
        let Some(job) = self.jobs.get_mut(&task.job) else { return failed(unknown()) };
        let resources = job.resources();
        let place = match shared {
            None => Arc::new(self.slots.take(resources.cores as usize, resources.gpus as usize)),
            Some(Some(place)) => place,
            // The task of that place could not be started, and the core learns of that first.
            Some(None) => return Some(killed(task)),
        };
        let staged = self.files.take_staged(task);
        let (files, folder) = staged.map_or((None, None), |(files, folder)| (Some(files), Some(folder)));
        let attempt = Attempt { index: task.index, number, token };
        let begun = match job.begin(attempt, &place, &self.scratch, folder.clone()) {
            Ok(begun) => begun,
            Err(kind) => {
                self.clean(folder, files);
                self.leave(place);
                return failed(kind);
            }
        };
        let running = Running {
            task,
            attempt: number,
            since: begun_at,
            slot: place.slot,
            place: Some(place),
            had_company: false,
            scratch: begun.scratch,
            files,
            resources_bytes: job.resources().memory_bytes,
            n_cores: job.resources().cores,
            time_limit: job.time_limit(),
            begun_at: after.is_none().then_some(begun_at),
        };
        self.running.insert(token, running);
        self.starvation.set_busy(true);
        self.outputs.arm();
        self.tokens.insert(task, token);
        match begun.work {
            Work::Launch(launch) => self.spawner.launch(*launch),
            Work::Ask(ask) => self.spawner.ask(*ask),
        }
        None
    }

    /// Returns the place of a task whose process has not ended.
    fn place_of(&self, task: TaskId) -> Option<Arc<Place>> {
        self.tokens.get(&task).and_then(|token| self.running.get(token)?.place.clone())
    }

    /// Gives back a place, unless another task waits for it.
    fn leave(&mut self, place: Arc<Place>) {
        if let Some(place) = Arc::into_inner(place) {
            self.slots.give_back(place);
        }
    }

    fn forget(&mut self, job: JobId) {
        let Some(job) = self.jobs.remove(&job) else { return };
        for (resident, scratch) in job.into_residents() {
            self.spawner.stop_resident(resident);
            if let Some(folder) = scratch {
                self.scratch.remove(folder);
            }
        }
    }
}

/// Returns the end of a task that was not started.
fn killed(task: TaskId) -> PilotEvent {
    PilotEvent::Ended { task, ending: Ending::Killed, usage: Usage::default(), output: None }
}

/// Returns how long tasks may run on after the batch system's signal: a third of its notice, because the
/// tasks need time to end after that, and the manager needs to hear of it.
fn batch_grace(notice: Option<Duration>) -> Duration {
    notice.map_or(BATCH_GRACE, |notice| BATCH_GRACE.min(notice / 3))
}

/// Returns the time of `at` on the pilot's clock.
fn time_of(started: Instant, at: Instant) -> Time {
    Time(u64::try_from(at.saturating_duration_since(started).as_micros()).unwrap_or(u64::MAX))
}

/// Waits until `moment`; for ever if it is `None`.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => pending().await,
    }
}

/// Waits for the end of a process and returns its id; waits for ever if there is none to watch.
async fn watched(pid: Option<u32>) -> u32 {
    match pid {
        Some(pid) => {
            watch::process_end(pid).await;
            pid
        }
        None => pending().await,
    }
}

/// Runs a pilot on its own runtime.
///
/// # Errors
/// As for [`drive`].
pub fn run(join: JoinDocument, started: Instant) -> Result<LeaveReason, DriverError> {
    let node = crate::node::discover(Path::new("/"), &|name| std::env::var(name).ok());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| DriverError::System { what: "event loop", source })?;
    let result = runtime.block_on(drive(join, node, started));
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests;
