//! Simulated pilots: the real decisions ([`PilotCore`]) over real HTTP, and every task ends at once
//! with exit code 0. What they cost is this process's own CPU time, so it can be told from the manager's.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use protocol::{
    codec::Format,
    pilot::{PULL_PATH, PullRequest, REGISTER_PATH, RegisterAnswer, RegisterRequest, VERSION},
};
use scheduler::{
    ids::{PilotId, TaskId},
    pilot::{Ending, Hunted, Lane, PilotAction, PilotCore, PilotEvent, PilotLimits},
    pull::{NodeFacts, Pull, PullAnswer, Registration},
    results::{JobReport, Report, Usage},
    time::{Span, Time},
};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinSet,
};

use crate::{
    Trouble,
    company::{Company, Member},
    http::{Call, Connection},
    place::Place,
    serve,
};

/// No fleet needs longer to come, or to do what it is given.
const PATIENCE: Duration = Duration::from_secs(120);
/// After an exchange failed: the manager is being started again.
const RETRY: Duration = Duration::from_millis(100);

/// What a fleet has done so far.
#[derive(Default)]
pub struct Tally {
    n_begun: AtomicU64,
    n_acknowledged: AtomicU64,
    n_pulls: AtomicU64,
    n_taken: AtomicU64,
    /// Whether tasks end with exit code 1.
    fails: AtomicBool,
    /// When the first task came since the last reset.
    first: Mutex<Option<Instant>>,
    changed: Notify,
    fault: Mutex<Option<String>>,
}

/// Pilots of one manager, alive until this is dropped.
pub struct Fleet {
    tally: Arc<Tally>,
    /// How long it took until all were registered.
    pub registered_in: Duration,
    _pilots: JoinSet<()>,
}

impl Fleet {
    /// Pilots for the allocations number `from` to `to`, the last one excluded. They register all at
    /// once; this returns when all have.
    pub async fn join(place: &Place, from: u32, to: u32, cores: u32) -> Result<Fleet, Trouble> {
        let (tally, company) = (Arc::new(Tally::default()), Arc::new(Company::default()));
        let joins = place.joins(from, to)?;
        let began = Instant::now();
        let mut arriving = JoinSet::new();
        for (tag, token) in joins {
            let (url, tally, company) = (place.access.url.clone(), tally.clone(), company.clone());
            arriving.spawn(async move { Pilot::register(&url, tag, &token, cores, tally, company).await });
        }
        let mut pilots = Vec::new();
        while let Some(pilot) = arriving.join_next().await {
            pilots.push(pilot??);
        }
        let registered_in = began.elapsed();
        let mut alive = JoinSet::new();
        for pilot in pilots {
            alive.spawn(pilot.live());
        }
        Ok(Fleet { tally, registered_in, _pilots: alive })
    }

    /// How many tasks have been given to processes that do not exist.
    pub fn n_begun(&self) -> u64 {
        self.tally.n_begun.load(Ordering::Relaxed)
    }

    /// How many results the manager has acknowledged.
    pub fn n_acknowledged(&self) -> u64 {
        self.tally.n_acknowledged.load(Ordering::Relaxed)
    }

    /// How many pulls were sent.
    pub fn n_pulls(&self) -> u64 {
        self.tally.n_pulls.load(Ordering::Relaxed)
    }

    /// How many tasks pilots have taken from others.
    pub fn n_taken(&self) -> u64 {
        self.tally.n_taken.load(Ordering::Relaxed)
    }

    /// From now on all tasks fail, or succeed again.
    pub fn set_failing(&self, fails: bool) {
        self.tally.fails.store(fails, Ordering::Relaxed);
    }

    /// From the first task given out since the last time to the acknowledgement of result number
    /// `n` in all.
    pub async fn until(&self, n: u64) -> Result<Duration, Trouble> {
        let began = Instant::now();
        while self.n_acknowledged() < n {
            let changed = self.tally.changed.notified();
            if let Some(fault) = self.tally.fault.lock().ok().and_then(|mut fault| fault.take()) {
                return Err(fault.into());
            }
            // Whoever changed it before this was heard is seen a moment later.
            let _ = tokio::time::timeout(Duration::from_millis(1), changed).await;
            if began.elapsed() > PATIENCE {
                return Err(format!("{} of {n} results after {PATIENCE:?}", self.n_acknowledged()).into());
            }
        }
        let first = self.tally.first.lock().ok().and_then(|mut first| first.take());
        Ok(first.map_or(Duration::ZERO, |first| first.elapsed()))
    }
}

struct Pilot {
    started: Instant,
    core: PilotCore,
    id: PilotId,
    session: String,
    url: String,
    first: Option<Connection>,
    /// To the connection of each lane, once there is one.
    lanes: [Option<mpsc::UnboundedSender<Vec<u8>>>; 2],
    news: mpsc::UnboundedSender<Heard>,
    heard: mpsc::UnboundedReceiver<Heard>,
    acknowledged: u64,
    kept: BTreeMap<u64, Report>,
    tally: Arc<Tally>,
    company: Arc<Company>,
    n_to_take: Arc<AtomicU64>,
    /// Who has asked for tasks and waits for an answer.
    asked: Option<oneshot::Sender<u64>>,
}

/// What a pilot hears.
pub enum Heard {
    /// From the manager.
    Answered { lane: Lane, answer: Result<Box<PullAnswer>, Trouble> },
    /// Another pilot has nothing to do; it is told how many tasks it gets.
    AskedFor { thief: PilotId, answer: oneshot::Sender<u64> },
    /// Others were asked for tasks, and so many are on their way.
    Hunted { n_tasks: u64 },
}

impl Pilot {
    async fn register(
        url: &str,
        tag: String,
        token: &str,
        cores: u32,
        tally: Arc<Tally>,
        company: Arc<Company>,
    ) -> Result<Pilot, Trouble> {
        let started = Instant::now();
        let mut connection = Connection::new(url, token)?;
        let node = NodeFacts {
            hostname: tag.clone(),
            capacity: serve::capacity(cores),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..NodeFacts::default()
        };
        let registration = Registration { tag, nonce: 1, node, uptime: Span::ZERO, predecessor: None };
        let body = Format::Postcard.encode(&RegisterRequest { version: VERSION, registration })?;
        let answer = connection.exchange(call(REGISTER_PATH), &body).await?;
        let answer: RegisterAnswer = Format::Postcard.decode(&answer)?;
        connection.authorise(&answer.session);
        let limits = PilotLimits {
            capacity: serve::capacity(cores),
            walltime_end: None,
            walltime_margin: Span::ZERO,
            poll_wait: answer.poll_wait,
        };
        let (news, heard) = mpsc::unbounded_channel();
        let (id, n_to_take) = (answer.registered.pilot, Arc::new(AtomicU64::new(0)));
        company.join(Member { pilot: id, n_to_take: n_to_take.clone(), ask: news.clone() });
        let mut pilot = Pilot {
            started,
            core: PilotCore::new(limits),
            id,
            session: answer.session,
            url: url.to_owned(),
            first: Some(connection),
            lanes: [None, None],
            news,
            heard,
            acknowledged: 0,
            kept: BTreeMap::new(),
            tally,
            company,
            n_to_take,
            asked: None,
        };
        pilot.acknowledged = answer.registered.acknowledged;
        Ok(pilot)
    }

    async fn live(mut self) {
        self.hear(PilotEvent::Registered { acknowledged: self.acknowledged });
        loop {
            let wakeup = self.core.next_wakeup().map(|at| self.started + Duration::from_micros(at.0));
            let event = tokio::select! {
                heard = self.heard.recv() => match heard {
                    Some(Heard::Answered { lane, answer: Ok(answer) }) => PilotEvent::Answered { lane, answer },
                    Some(Heard::Answered { lane, answer: Err(_) }) => PilotEvent::PullFailed { lane },
                    Some(Heard::AskedFor { thief, answer }) => {
                        self.asked = Some(answer);
                        PilotEvent::AskedFor { thief }
                    }
                    Some(Heard::Hunted { n_tasks }) => {
                        PilotEvent::Hunted(if n_tasks > 0 { Hunted::Promised } else { Hunted::InVain })
                    }
                    None => return,
                },
                () = until(wakeup) => PilotEvent::TimerFired,
            };
            self.hear(event);
        }
    }

    fn hear(&mut self, event: PilotEvent) {
        if let Err(error) = self.handle(event)
            && let Ok(mut fault) = self.tally.fault.lock()
        {
            fault.get_or_insert(format!("pilot {}: {error}", self.id));
        }
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Gives an event to the core and does what it wants, until it wants nothing more.
    fn handle(&mut self, event: PilotEvent) -> Result<(), Trouble> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = self.now();
            for action in self.core.handle(now, event) {
                match action {
                    PilotAction::Start { task, .. } => events.push_back(self.ended(task, now)),
                    PilotAction::Keep(report) => {
                        self.kept.insert(report.seq, report);
                    }
                    PilotAction::Drop { acknowledged } => self.acknowledge(acknowledged),
                    PilotAction::Pull { lane, pull, report } => self.pull(lane, *pull, report)?,
                    PilotAction::Kill { .. } | PilotAction::Leave { .. } => {
                        return Err("it was told to kill or to leave".into());
                    }
                    // What is to be withdrawn has ended by now.
                    PilotAction::Learn(_)
                    | PilotAction::Forget { .. }
                    | PilotAction::Withdraw { .. }
                    | PilotAction::Meet { .. }
                    | PilotAction::Show => {}
                    PilotAction::Gave { n_tasks, .. } => {
                        // Whoever is not there any more gets them all the same.
                        let _ = self.asked.take().map(|asked| asked.send(n_tasks));
                    }
                    PilotAction::Hunt => self.hunt(),
                    PilotAction::Stage { .. }
                    | PilotAction::Unstage { .. }
                    | PilotAction::Deliver { .. }
                    | PilotAction::Look { .. } => {
                        return Err("it was given tasks with files".into());
                    }
                }
            }
        }
        self.n_to_take.store(self.core.n_to_take(self.now()), Ordering::Relaxed);
        Ok(())
    }

    /// Asks other pilots for tasks.
    fn hunt(&self) {
        let (company, tally, news) = (self.company.clone(), self.tally.clone(), self.news.clone());
        let (pilot, seed) = (self.id, self.now().0 ^ self.id.0 << 40);
        tokio::spawn(async move {
            let n_tasks = company.hunt(pilot, seed).await;
            tally.n_taken.fetch_add(n_tasks, Ordering::Relaxed);
            // It has ended meanwhile.
            let _ = news.send(Heard::Hunted { n_tasks });
        });
    }

    /// The end of a task's process, if there were one.
    fn ended(&self, task: TaskId, now: Time) -> PilotEvent {
        if self.tally.n_begun.fetch_add(1, Ordering::Relaxed)
            == self.tally.n_acknowledged.load(Ordering::Relaxed)
            && let Ok(mut first) = self.tally.first.lock()
        {
            first.get_or_insert_with(Instant::now);
        }
        // No two real attempts use the same, and the store must not profit from those that do.
        let jitter = (task.index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (wall_us, cpu_us) = (1 + jitter % 16, jitter % 8);
        let usage =
            Usage { started_us: now.0, wall_us, cpu_us, memory_bytes: (256 + jitter / 16 % 16) * 4096 };
        let code = i32::from(self.tally.fails.load(Ordering::Relaxed));
        PilotEvent::Ended { task, ending: Ending::Exited(code), usage, output: None }
    }

    fn acknowledge(&mut self, number: u64) {
        let mut n_results = 0;
        while let Some(entry) = self.kept.first_entry().filter(|entry| *entry.key() <= number) {
            let n_of = |job: &JobReport| job.successes.tasks.len() + job.failures.len() as u64;
            n_results += entry.remove().jobs.iter().map(n_of).sum::<u64>();
        }
        if n_results > 0 {
            self.tally.n_acknowledged.fetch_add(n_results, Ordering::Relaxed);
            self.tally.changed.notify_waiters();
        }
    }

    fn pull(&mut self, lane: Lane, mut pull: Pull, report: Option<u64>) -> Result<(), Trouble> {
        self.tally.n_pulls.fetch_add(1, Ordering::Relaxed);
        pull.report = report.and_then(|number| self.kept.get(&number).cloned());
        let body = Format::Postcard.encode(&PullRequest { pilot: self.id, pull })?;
        let to_lane = match &self.lanes[lane as usize] {
            Some(to_lane) => to_lane,
            None => {
                let connection = match self.first.take() {
                    Some(connection) => connection,
                    None => Connection::new(&self.url, &self.session)?,
                };
                let (to_lane, requests) = mpsc::unbounded_channel();
                tokio::spawn(converse(lane, connection, requests, self.news.clone()));
                self.lanes[lane as usize].insert(to_lane)
            }
        };
        to_lane.send(body).map_err(|_| "its connection has ended".into())
    }
}

/// Sends one lane's pulls and hands the answers back, until the pilot is gone.
async fn converse(
    lane: Lane,
    mut connection: Connection,
    mut requests: mpsc::UnboundedReceiver<Vec<u8>>,
    news: mpsc::UnboundedSender<Heard>,
) {
    while let Some(body) = requests.recv().await {
        let answer = match connection.exchange(call(PULL_PATH), &body).await {
            Ok(bytes) => Format::Postcard.decode(&bytes).map(Box::new).map_err(Trouble::from),
            Err(error) => {
                tokio::time::sleep(RETRY).await;
                Err(error)
            }
        };
        if news.send(Heard::Answered { lane, answer }).is_err() {
            return;
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn call(path: &str) -> Call<'_> {
    Call { method: "POST", path, content_type: Format::Postcard.content_type() }
}
