//! The sums that are kept while a scenario runs: for each job, platform and user, never for each task.

use std::{collections::BTreeMap, ops::AddAssign};

use scheduler::{
    engine::record::{JobResult, Record, Verdict},
    ids::{AllocationId, JobId, PilotId, TaskId},
    time::{Span, Time},
};

use super::timeline::Timeline;

/// Shorter tasks count as this long in the slowdown; otherwise the shortest ones would dominate it (Feitelson
/// and Rudolph, 1998).
const SLOWDOWN_BOUND: Span = Span::from_secs(10);

/// Sums over tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of tasks that succeeded.
    pub n_done: u64,
    /// Number of tasks that failed for good.
    pub n_failed: u64,
    /// Number of processes of tasks.
    pub n_executions: u64,
    /// Microseconds from a job's submission to the start of the attempt that counts.
    pub waited_us: u128,
    /// Sum of the bounded slowdowns of tasks.
    pub slowdown: f64,
    /// Core-microseconds of the attempts that count.
    pub useful: u128,
    /// Core-microseconds of all processes.
    pub busy: u128,
    /// The last end of a task.
    pub last_end: Option<Time>,
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.n_done += other.n_done;
        self.n_failed += other.n_failed;
        self.n_executions += other.n_executions;
        self.waited_us += other.waited_us;
        self.slowdown += other.slowdown;
        self.useful += other.useful;
        self.busy += other.busy;
        self.last_end = self.last_end.max(other.last_end);
    }
}

/// A job of the scenario, and its results.
#[derive(Clone, Debug)]
pub struct JobAccount {
    /// Its number in the scenario.
    pub number: u64,
    /// The user, by position.
    pub user: usize,
    /// The application, by position.
    pub application: usize,
    /// Number of tasks.
    pub n_tasks: u64,
    /// When its user first sent it.
    pub submitted: Time,
    /// The sums over its tasks.
    pub tally: Tally,
    cores: u32,
    n_open: u64,
}

impl JobAccount {
    pub(crate) fn new(
        number: u64,
        (user, application): (usize, usize),
        (n_tasks, cores): (u64, u32),
        submitted: Time,
    ) -> JobAccount {
        let tally = Tally::default();
        JobAccount { number, user, application, n_tasks, submitted, tally, cores, n_open: n_tasks }
    }

    /// Adds a task of it that succeeded; returns the added sums.
    pub(crate) fn succeeded(&mut self, (from, to): (Time, Time)) -> Tally {
        let (waited, wall) = (from.since(self.submitted), to.since(from));
        let bound = wall.max(SLOWDOWN_BOUND).as_secs_f64();
        self.ended(Tally {
            n_done: 1,
            waited_us: u128::from(waited.0),
            slowdown: ((waited + wall).as_secs_f64() / bound).max(1.0),
            useful: u128::from(wall.0) * u128::from(self.cores),
            last_end: Some(to),
            ..Tally::default()
        })
    }

    /// Adds a task of it that failed for good; returns the added sums.
    pub(crate) fn failed(&mut self, at: Time) -> Tally {
        self.ended(Tally { n_failed: 1, last_end: Some(at), ..Tally::default() })
    }

    fn ended(&mut self, tally: Tally) -> Tally {
        self.n_open -= 1;
        self.tally += &tally;
        tally
    }
}

/// The results of a platform.
#[derive(Clone, Debug)]
pub struct PlatformAccount {
    /// The sums over tasks that ran there.
    pub tally: Tally,
    /// Number of batch jobs that began.
    pub n_batch_jobs: u64,
    /// The sum of their queue waits, in microseconds.
    pub queued_us: u128,
    /// Microseconds of pilots that have ended.
    pub held_us: u128,
    /// The largest number of cores busy at once.
    pub busy_cores_max: u32,
    /// Busy cores over time.
    pub timeline: Timeline,
    /// The last end of each user's tasks there.
    pub last_ends: BTreeMap<usize, Time>,
    busy_cores: u32,
    n_live: u64,
    live_since: Time,
}

/// All sums.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The jobs, by number in the scenario.
    pub jobs: Vec<JobAccount>,
    /// The platforms, in the scenario's order.
    pub platforms: Vec<PlatformAccount>,
    /// When the first job arrived.
    pub begin: Time,
    numbers: BTreeMap<JobId, usize>,
    allocations: BTreeMap<AllocationId, usize>,
    pilots: BTreeMap<PilotId, usize>,
    n_tasks: u64,
    n_open: u64,
    n_executions: u64,
}

impl Ledger {
    /// Makes the ledger of jobs that will arrive.
    pub(crate) fn new(jobs: Vec<JobAccount>, n_platforms: usize) -> Ledger {
        let begin = jobs.iter().map(|job| job.submitted).min().unwrap_or_default();
        let platform = PlatformAccount {
            tally: Tally::default(),
            n_batch_jobs: 0,
            queued_us: 0,
            held_us: 0,
            busy_cores_max: 0,
            timeline: Timeline::new(begin),
            last_ends: BTreeMap::new(),
            busy_cores: 0,
            n_live: 0,
            live_since: begin,
        };
        let n_tasks = jobs.iter().map(|job| job.n_tasks).sum();
        Ledger {
            n_tasks,
            n_open: n_tasks,
            jobs,
            platforms: vec![platform; n_platforms],
            begin,
            numbers: BTreeMap::new(),
            allocations: BTreeMap::new(),
            pilots: BTreeMap::new(),
            n_executions: 0,
        }
    }

    pub(super) fn is_all_over(&self) -> bool {
        self.n_open == 0
    }

    /// Returns the number of ended tasks, and of all tasks.
    pub(super) fn n_ended(&self) -> (u64, u64) {
        (self.n_tasks - self.n_open, self.n_tasks)
    }

    /// Returns the first `n_max` accepted jobs that have not ended, each with its number of open tasks.
    pub(super) fn open_jobs(&self, n_max: usize) -> Vec<(JobId, u64)> {
        let known =
            self.numbers.iter().filter_map(|(id, number)| Some((*id, self.jobs.get(*number)?.n_open)));
        known.filter(|(_, n_open)| *n_open > 0).take(n_max).collect()
    }

    /// Returns the number of processes of tasks.
    pub(super) fn n_executions(&self) -> u64 {
        self.n_executions
    }

    /// Returns the scenario's job with this number of the engine.
    pub(super) fn job(&self, job: JobId) -> Option<&JobAccount> {
        self.jobs.get(*self.numbers.get(&job)?)
    }

    fn job_mut(&mut self, job: JobId) -> Option<&mut JobAccount> {
        self.jobs.get_mut(*self.numbers.get(&job)?)
    }

    pub(super) fn task_began(&mut self, site: usize, task: TaskId, cores: u32) {
        self.n_executions += 1;
        if let Some(job) = self.job_mut(task.job) {
            job.tally.n_executions += 1;
        }
        let platform = &mut self.platforms[site];
        platform.tally.n_executions += 1;
        platform.busy_cores += cores;
        platform.busy_cores_max = platform.busy_cores_max.max(platform.busy_cores);
    }

    /// Adds a process of a task that ended, in any way.
    pub(super) fn task_ended(&mut self, site: usize, task: TaskId, cores: u32, (from, to): (Time, Time)) {
        let busy = u128::from(to.since(from).0) * u128::from(cores);
        if let Some(job) = self.job_mut(task.job) {
            job.tally.busy += busy;
        }
        let platform = &mut self.platforms[site];
        platform.tally.busy += busy;
        platform.busy_cores -= cores;
        platform.timeline.add(cores, (from, to));
    }

    pub(super) fn batch_job_started(&mut self, site: usize, waited: Span, now: Time) {
        let platform = &mut self.platforms[site];
        platform.count_held(now);
        platform.n_batch_jobs += 1;
        platform.queued_us += u128::from(waited.0);
        platform.n_live += 1;
    }

    pub(super) fn batch_job_ended(&mut self, site: usize, now: Time) {
        let platform = &mut self.platforms[site];
        platform.count_held(now);
        platform.n_live -= 1;
    }

    /// Closes the sums at the end of the run.
    pub(super) fn closed(&mut self, now: Time) {
        self.platforms.iter_mut().for_each(|platform| platform.count_held(now));
    }

    /// Adds a record that became durable.
    pub(super) fn kept(&mut self, record: &Record) {
        match record {
            Record::JobAccepted { job, request, .. } => {
                let number = request.submission_key.as_ref().and_then(|key| key.parse().ok());
                self.numbers.extend(number.map(|number| (*job, number)));
            }
            Record::AllocationIntended { allocation, platform, .. } => {
                self.allocations.insert(*allocation, platform.0 as usize - 1);
            }
            Record::PilotRegistered { pilot, allocation, .. } => {
                let site = self.allocations.get(allocation).copied().unwrap_or_default();
                self.pilots.insert(*pilot, site);
            }
            Record::Reported { pilot, results, at, .. } => {
                let site = self.pilots.get(pilot).copied().unwrap_or_default();
                results.iter().for_each(|result| self.reported(site, result, *at));
            }
            Record::PilotLost { pilot, blamed, at, .. } => {
                let site = self.pilots.get(pilot).copied().unwrap_or_default();
                let lost = blamed.iter().filter(|blame| blame.verdict == Verdict::Final);
                lost.for_each(|blame| self.failed(site, blame.task.job, *at));
            }
            _ => {}
        }
    }

    fn reported(&mut self, site: usize, result: &JobResult, at: Time) {
        for (_, _, usage) in result.successes.attempts() {
            // In scenarios the clocks of pilots show the time of the world.
            let from = Time(usage.started_us);
            self.succeeded(site, result.job, (from, from + Span(usage.wall_us)));
        }
        let failed = result.failures.iter().filter(|failure| failure.verdict == Verdict::Final);
        failed.for_each(|_| self.failed(site, result.job, at));
    }

    fn succeeded(&mut self, site: usize, job: JobId, (from, to): (Time, Time)) {
        let Some(job) = self.job_mut(job) else { return };
        let (tally, user) = (job.succeeded((from, to)), job.user);
        self.ended(site, user, &tally, to);
    }

    fn failed(&mut self, site: usize, job: JobId, at: Time) {
        let Some(job) = self.job_mut(job) else { return };
        let (tally, user) = (job.failed(at), job.user);
        self.ended(site, user, &tally, at);
    }

    fn ended(&mut self, site: usize, user: usize, tally: &Tally, at: Time) {
        self.n_open -= 1;
        let platform = &mut self.platforms[site];
        platform.tally += tally;
        let last = platform.last_ends.entry(user).or_default();
        *last = at.max(*last);
    }
}

impl PlatformAccount {
    fn count_held(&mut self, now: Time) {
        self.held_us += u128::from(now.since(self.live_since).0) * u128::from(self.n_live);
        self.live_since = now;
    }
}
