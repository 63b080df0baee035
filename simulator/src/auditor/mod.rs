//! The auditor keeps its own history and checks the design's rules against it. It sees only events that are
//! visible from outside: answers to users, durable records, the processes that begin and end on each node,
//! and the batch jobs of the sites. It does not know the engine's state.

use std::collections::{BTreeMap, BTreeSet};

use scheduler::{
    edges::Edges,
    engine::{
        interface::{JobRequest, On, PlatformMode, PlatformSpec, platform::scaling::Ratio},
        record::{FailedAttempt, Record, Verdict},
    },
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    ranges::TaskSet,
    resources::Resources,
    results::{Blame, FailureKind},
    time::{Span, Time},
};

macro_rules! ensure {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err(Violation(format!($($what)*)));
        }
    };
}
mod answers;
mod blame;
mod order;
mod usage;
mod wishes;

/// A manager that stands still for less than this may not notice it.
const STALL: Span = Span::from_secs(2);

/// A violation of a rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

/// One process of a task.
#[derive(Debug)]
struct Execution {
    /// The place of the pilot that ran it.
    place: String,
    /// When the manager sent the task to the pilot.
    given: Time,
    /// Whether it was begun by a pilot whose holdings the manager did not know then, or that was ordered to
    /// end it.
    is_stray: bool,
    end: Option<(Time, End)>,
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Success,
    Failure(FailureKind),
    /// Killed on the manager's command, or together with its pilot.
    Killed,
}

/// The state of a job as it must be.
#[derive(Debug)]
struct Book {
    n_tasks: u64,
    /// The resources of each of its tasks.
    needs: Resources,
    retries: u32,
    crash_limit: u32,
    max_failures: Option<u64>,
    /// Number of failed tasks when tasks were last retried by a user.
    n_failed_before: u64,
    done: TaskSet,
    failed: TaskSet,
    cancelled: TaskSet,
    is_paused: bool,
    /// Tasks taken from their pilots because they were cancelled or retried by a user, with the times.
    revoked: Vec<(Time, TaskSet)>,
    /// Tasks taken from their pilots because their dependencies run again, with the times.
    put_back: Vec<(Time, TaskSet)>,
    /// The dependencies of its tasks.
    order: order::Order,
}

/// Limits for all jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budgets {
    pub(crate) node_retries: u32,
    pub(crate) transfer_retries: u32,
    pub(crate) walltime_retries: u32,
    pub(crate) heartbeat_limit: Span,
    /// The grace period, for which tasks are kept for their pilots after a restart.
    pub(crate) grace: Span,
}

#[derive(Debug)]
pub(crate) struct Auditor {
    budgets: Budgets,
    books: BTreeMap<JobId, Book>,
    keys: BTreeMap<String, JobId>,
    /// Jobs that users have sent, by their submission keys.
    sent: BTreeMap<String, JobRequest>,
    /// Stages by their submission keys: their positions, and the dependencies that were sent.
    sent_after: BTreeMap<String, (u64, Vec<(On, Edges)>)>,
    /// When a user's change of a job last came, and the tasks to be cancelled and to be retried then.
    asked: BTreeMap<JobId, (Time, TaskSet, TaskSet)>,
    /// When the manager took the last message of each pilot, and the one before.
    heard: BTreeMap<PilotId, (Time, Time)>,
    /// The tasks of each job that each pilot was ever sent.
    given: BTreeMap<(PilotId, JobId), TaskSet>,
    /// When each pilot was last sent tasks of each job.
    given_at: BTreeMap<(PilotId, JobId), Time>,
    /// The resources of the nodes of pilots.
    nodes: BTreeMap<PilotId, Resources>,
    /// The largest vCPU ratio that a platform ever had.
    ratios: BTreeMap<PlatformId, Ratio>,
    /// When the processes of pilots died.
    died: BTreeMap<String, BTreeSet<Time>>,
    executions: BTreeMap<TaskId, Vec<Execution>>,
    tags: BTreeMap<AllocationId, String>,
    /// The limit of requests within a minute, the mode of the platform, and the times of requests.
    wishes: BTreeMap<PlatformId, (Option<u32>, PlatformMode, Vec<Time>)>,
    usage: usage::Books,
    pilots: BTreeMap<PilotId, String>,
    reported: BTreeMap<PilotId, u64>,
    /// When a pilot's tasks were last free for others: it left, was lost, or died.
    freed: BTreeMap<String, Time>,
    /// When pilots registered.
    registered: BTreeMap<PilotId, Time>,
    /// The time from the birth of pilots to the end of their walltimes.
    lives: BTreeMap<PilotId, Span>,
    /// Pilots that are lost and have not returned.
    lost: BTreeSet<PilotId>,
    /// Places of pilots whose batch jobs were missing in a listing though they existed.
    unlisted: BTreeSet<String>,
    /// The lost pilots for which a task is blamed since it was last opened, with the times.
    blamed: BTreeMap<TaskId, Vec<(PilotId, Time)>>,
    /// Number of failures of a task since then, by cause.
    n_failures_by: BTreeMap<(TaskId, Blame), u32>,
    /// Number of failures of a task since then, lost pilots included.
    n_failures: BTreeMap<TaskId, u32>,
    /// The newest part that each pilot has been sent: the manager's epoch and the part's number.
    newest_part: BTreeMap<PilotId, (u64, u64)>,
    /// Whether a user has ever wanted to follow the output of tasks.
    is_followed: bool,
    manager_started: Time,
    /// The end of the grace period, in which tasks are kept for the pilots that ran them before the manager
    /// started.
    grace_end: Time,
    /// When each site was last asked for batch jobs, by the site's own clock.
    asked_of: BTreeMap<String, Vec<Time>>,
    /// When pilots first sent this manager their holdings.
    in_step: BTreeMap<PilotId, Time>,
    /// … and when they sent them again, after they were lost or after a restart.
    back_in_step: BTreeMap<PilotId, Time>,
    pub(crate) n_executions: u64,
    pub(crate) n_repeated: u64,
    /// Number of tasks that pilots were sent because other pilots gave them.
    pub(crate) n_given: u64,
    /// Number of commands to a pilot to give tasks to another.
    pub(crate) n_passed_on: u64,
    /// The longest time between a success and its durable record.
    pub(crate) latest: Span,
}

/// Returns the name of a pilot's place: its allocation's tag and its node.
pub(crate) fn place(tag: &str, hostname: &str) -> String {
    format!("{tag} {hostname}")
}

impl Auditor {
    pub(crate) fn new(budgets: Budgets) -> Auditor {
        Auditor {
            budgets,
            books: BTreeMap::new(),
            keys: BTreeMap::new(),
            sent: BTreeMap::new(),
            sent_after: BTreeMap::new(),
            asked: BTreeMap::new(),
            heard: BTreeMap::new(),
            given: BTreeMap::new(),
            given_at: BTreeMap::new(),
            nodes: BTreeMap::new(),
            ratios: BTreeMap::new(),
            died: BTreeMap::new(),
            executions: BTreeMap::new(),
            tags: BTreeMap::new(),
            wishes: BTreeMap::new(),
            usage: usage::Books::default(),
            pilots: BTreeMap::new(),
            reported: BTreeMap::new(),
            freed: BTreeMap::new(),
            registered: BTreeMap::new(),
            lives: BTreeMap::new(),
            lost: BTreeSet::new(),
            unlisted: BTreeSet::new(),
            blamed: BTreeMap::new(),
            n_failures_by: BTreeMap::new(),
            n_failures: BTreeMap::new(),
            newest_part: BTreeMap::new(),
            is_followed: false,
            manager_started: Time(0),
            grace_end: Time(0),
            asked_of: BTreeMap::new(),
            in_step: BTreeMap::new(),
            back_in_step: BTreeMap::new(),
            n_executions: 0,
            n_repeated: 0,
            n_given: 0,
            n_passed_on: 0,
            latest: Span::ZERO,
        }
    }

    pub(crate) fn manager_starts(&mut self, now: Time) {
        self.manager_started = now;
        self.grace_end = now + self.budgets.grace;
        self.in_step.clear();
    }

    /// Notes that the manager stands still for `span`. If the stall ends after the grace period, pilots get
    /// as much more time; a second time only if the manager knows about the first.
    pub(crate) fn manager_stalls(&mut self, now: Time, span: Span) {
        let is_first = self.grace_end == self.manager_started + self.budgets.grace;
        if is_first && now < self.grace_end && now + span > self.grace_end + STALL {
            self.grace_end = self.grace_end + span;
        }
    }

    /// Notes that the manager answers a pilot's pull without a resync request: it knows the pilot's holdings.
    pub(crate) fn is_in_step(&mut self, pilot: PilotId, now: Time) -> Result<(), Violation> {
        // A lost pilot gets an answer, too.
        if self.in_step.contains_key(&pilot) || self.lost.contains(&pilot) {
            return Ok(());
        }
        self.is_not_blamed(pilot)?;
        self.in_step.insert(pilot, now);
        // The very first time is not a return.
        self.back_in_step.entry(pilot).and_modify(|at| *at = now).or_insert(Time(0));
        Ok(())
    }

    /// Checks the start of a process, of a task that was sent to its pilot at `given`. Rule 2: no other pilot
    /// has the task.
    pub(crate) fn started(
        &mut self,
        task: TaskId,
        place: &str,
        given: Time,
        now: Time,
    ) -> Result<usize, Violation> {
        self.may_begin(task)?;
        // Even if another pilot gave the task, the manager has sent it there.
        let is_sent = |pilot: &PilotId| {
            self.given.get(&(*pilot, task.job)).is_some_and(|tasks| tasks.contains(task.index))
        };
        let mut of_place = self.pilots.iter().filter(|(_, held)| *held == place).map(|(pilot, _)| pilot);
        ensure!(of_place.any(is_sent), "task {task} began on {place}, where nobody has sent it");
        let is_stray = self.is_stray(task, place, given);
        for other in self.executions.get(&task).into_iter().flatten() {
            let is_over = matches!(other.end, Some((_, End::Failure(_) | End::Killed)));
            ensure!(
                is_over || is_stray || other.is_stray || self.was_freed(task, other, now),
                "task {task} began on {place} while {} has it: {other:?}",
                other.place
            );
            ensure!(other.place != place || other.end.is_some(), "task {task} began twice on {place}");
        }
        let others = self.executions.get(&task).into_iter().flatten();
        let freed: Vec<bool> = others.map(|other| self.was_freed(task, other, now)).collect();
        let executions = self.executions.entry(task).or_default();
        // A pilot that claims a task which was given to another meanwhile has lost it.
        executions.iter_mut().zip(freed).for_each(|(other, freed)| other.is_stray |= freed);
        self.n_executions += 1;
        self.n_repeated += u64::from(!executions.is_empty());
        executions.push(Execution { place: place.to_owned(), given, is_stray, end: None });
        Ok(executions.len() - 1)
    }

    fn pilot(&self, place: &str) -> Option<PilotId> {
        self.pilots.iter().rev().find(|(_, held)| *held == place).map(|(pilot, _)| *pilot)
    }

    /// Returns whether a task may begin where it was taken away, because the command is still on its way: the
    /// pilot was lost, the task revoked, or the manager restarted since the pilot got the task.
    fn is_stray(&self, task: TaskId, place: &str, given: Time) -> bool {
        let Some(pilot) = self.pilot(place).filter(|pilot| self.in_step.contains_key(pilot)) else {
            return true;
        };
        let is_back = self.back_in_step.get(&pilot).is_some_and(|at| *at >= given);
        let is_revoked = self.taken_at(task).is_some_and(|at| at >= given);
        is_back || is_revoked || self.manager_started >= given
    }

    /// Returns whether other pilots may get the task although that execution has not failed: its pilot was
    /// lost, the task was revoked, or no pilot has claimed it within the grace period after a restart.
    fn was_freed(&self, task: TaskId, execution: &Execution, now: Time) -> bool {
        let freed = self.freed.get(&execution.place).copied().into_iter().chain(self.taken_at(task));
        let grace_end = self.grace_end;
        let claim = self.pilot(&execution.place).and_then(|pilot| self.in_step.get(&pilot));
        let is_unclaimed = now >= grace_end && claim.is_none_or(|at| *at >= grace_end);
        freed.into_iter().any(|at| at >= execution.given)
            || (is_unclaimed && self.manager_started >= execution.given)
    }

    pub(crate) fn ended(&mut self, task: TaskId, execution: usize, end: End, now: Time) {
        if let Some(held) = self.executions.get_mut(&task).and_then(|held| held.get_mut(execution)) {
            held.end.get_or_insert((now, end));
        }
    }

    /// Notes that a pilot's process has died, and with it the processes of all its tasks.
    pub(crate) fn pilot_died(&mut self, place: &str, now: Time) {
        self.died.entry(place.to_owned()).or_default().insert(now);
        self.freed.insert(place.to_owned(), now);
    }

    /// Checks the number of nodes of our batch jobs at a site, and the number of waiting ones. Rule 6.
    pub(crate) fn site_holds(
        &self,
        spec: &PlatformSpec,
        n_nodes: usize,
        n_queued: usize,
    ) -> Result<(), Violation> {
        let (site, limit) = (&spec.name, spec.n_pilots_max);
        ensure!(
            n_nodes <= limit as usize,
            "{site} holds {n_nodes} nodes of our batch jobs; the limit is {limit} pilots"
        );
        if let Some(limit) = spec.limits.n_queued_max {
            ensure!(
                n_queued <= limit as usize,
                "{n_queued} of our batch jobs wait on {site}; the limit is {limit}"
            );
        }
        Ok(())
    }

    /// Checks a request to a site for a batch job. Rule 6, by the site's own clock.
    pub(crate) fn site_is_asked(&mut self, spec: &PlatformSpec, now: Time) -> Result<(), Violation> {
        let asked = self.asked_of.entry(spec.name.clone()).or_default();
        asked.retain(|before| now.since(*before) < Span::from_secs(60));
        asked.push(now);
        let (n, limit) = (asked.len(), spec.limits.n_submissions_per_minute.unwrap_or(u32::MAX));
        ensure!(
            n <= limit as usize,
            "{} was asked for {n} batch jobs within a minute; the limit is {limit}",
            spec.name
        );
        Ok(())
    }

    /// Notes a change of the operator's limits for a platform.
    fn allowed(&mut self, record: &Record) {
        match record {
            Record::PlatformAttached { platform, spec, .. } => {
                let limit = spec.limits.n_submissions_per_minute;
                self.wishes.entry(*platform).or_default().0 = limit;
                self.usage.allowed(*platform, spec.limits.user_core_time_max);
            }
            Record::PlatformModeSet { platform, mode, .. } => {
                self.wishes.entry(*platform).or_default().1 = *mode;
            }
            _ => {}
        }
    }

    /// Checks a request for an allocation. Rule 6.
    fn asked_for(&mut self, platform: PlatformId, at: Time) -> Result<(), Violation> {
        let Some((limit, mode, asked)) = self.wishes.get_mut(&platform) else { return Ok(()) };
        ensure!(*mode == PlatformMode::Active, "platform {platform} is {mode:?} and asked for more");
        asked.retain(|before| at.since(*before) < Span::from_secs(60));
        asked.push(at);
        let (n, limit) = (asked.len(), limit.unwrap_or(u32::MAX));
        ensure!(n <= limit as usize, "{n} allocations of {platform} within a minute; the limit is {limit}");
        Ok(())
    }

    fn accepted(&mut self, job: JobId, request: &JobRequest) -> Result<(), Violation> {
        self.is_as_sent(job, request)?;
        self.usage.accepted(job, request);
        let book = Book {
            n_tasks: request.n_tasks,
            needs: request.needs.resources.clone(),
            retries: request.retries,
            crash_limit: request.crash_limit,
            max_failures: request.max_failures,
            n_failed_before: 0,
            done: TaskSet::new(),
            failed: TaskSet::new(),
            cancelled: TaskSet::new(),
            is_paused: false,
            revoked: Vec::new(),
            put_back: Vec::new(),
            order: order::Order::of(request),
        };
        ensure!(self.books.insert(job, book).is_none(), "job {job} was accepted twice");
        Ok(())
    }

    /// Checks a record that became durable.
    pub(crate) fn kept(&mut self, record: &Record) -> Result<(), Violation> {
        match record {
            Record::JobAccepted { job, request, .. } => self.accepted(*job, request)?,
            Record::PlatformAttached { .. } | Record::PlatformModeSet { .. } => self.allowed(record),
            Record::PlatformScaled { platform, change } => {
                let most = self.ratios.entry(*platform).or_insert(Ratio::ONE);
                *most = change.after.max(*most);
            }
            Record::AllocationIntended { allocation, platform, tag, at, .. } => {
                self.tags.insert(*allocation, tag.clone());
                self.usage.asked_for(*allocation, *platform);
                self.asked_for(*platform, *at)?;
            }
            Record::AllocationReleased { allocation, .. } => {
                self.usage.released(*allocation, self.tags.get(allocation));
            }
            Record::PilotRegistered { pilot, allocation, node, born_at, at, .. } => {
                let life = node.walltime_left.map(|left| at.since(*born_at) + left);
                self.lives.extend(life.map(|life| (*pilot, life)));
                self.heard.entry(*pilot).or_insert((*at, *at));
                self.registered.insert(*pilot, *at);
                self.nodes.insert(*pilot, node.capacity.clone());
                self.usage.registered(*pilot, *allocation);
                let tag = self.tags.get(allocation).cloned().unwrap_or_default();
                self.pilots.insert(*pilot, place(&tag, &node.hostname));
            }
            // It counts its parts from the beginning.
            Record::PilotReturned { pilot, at } => {
                self.is_heard(*pilot, *at);
                self.newest_part.remove(pilot);
                self.lost.remove(pilot);
            }
            Record::PilotLeft { pilot, at, .. } => self.pilot_gone(*pilot, *at),
            Record::PilotLost { pilot, blamed, at, .. } => self.pilot_lost(*pilot, blamed, *at)?,
            Record::BlameTakenBack { pilot, tasks, .. } => self.blame_taken_back(*pilot, tasks)?,
            Record::TasksCancelled { job, tasks, cause, at } => self.cancelled(*job, tasks, cause, *at)?,
            Record::TasksReopened { job, tasks, at } => self.reopened(*job, tasks, *at)?,
            Record::JobPaused { job, .. } => self.pause(*job, true),
            Record::JobResumed { job, .. } => self.pause(*job, false),
            Record::Reported { .. } => self.report_kept(record)?,
            _ => {}
        }
        // A job that has ended is not paused any more: tasks that are retried later are meant to run.
        self.books.values_mut().filter(|book| book.is_over()).for_each(|book| book.is_paused = false);
        Ok(())
    }

    fn pilot_gone(&mut self, pilot: PilotId, at: Time) {
        if let Some(place) = self.pilots.get(&pilot) {
            self.freed.insert(place.clone(), at);
        }
        self.in_step.remove(&pilot);
    }

    /// Returns when the task was last cancelled or retried by a user.
    fn revoked_at(&self, task: TaskId) -> Option<Time> {
        let revoked = self.books.get(&task.job)?.revoked.iter().rev();
        revoked.filter(|(_, tasks)| tasks.contains(task.index)).map(|(at, _)| *at).next()
    }

    /// Returns when the task was last taken from its pilot.
    fn taken_at(&self, task: TaskId) -> Option<Time> {
        let put_back = self.books.get(&task.job)?.put_back.iter().rev();
        let put_back = put_back.filter(|(_, tasks)| tasks.contains(task.index)).map(|(at, _)| *at).next();
        self.revoked_at(task).max(put_back)
    }

    fn pause(&mut self, job: JobId, is_paused: bool) {
        if let Some(book) = self.books.get_mut(&job) {
            book.is_paused = is_paused;
        }
    }

    fn forget_failures(&mut self, job: JobId, tasks: &TaskSet) {
        let is_other = |task: &TaskId| task.job != job || !tasks.contains(task.index);
        self.n_failures_by.retain(|(task, _), _| is_other(task));
        self.blamed.retain(|task, _| is_other(task));
        self.n_failures.retain(|task, _| is_other(task));
    }

    /// Rule 2: each task has one result, and a process that produced it.
    fn report_kept(&mut self, record: &Record) -> Result<(), Violation> {
        let Record::Reported { pilot, seq, results, at } = record else { return Ok(()) };
        let before = self.reported.insert(*pilot, *seq).unwrap_or(0);
        ensure!(*seq == before + 1, "report {seq} of pilot {pilot} was taken after {before}");
        let place = self.pilots.get(pilot).cloned().unwrap_or_default();
        for result in results {
            self.usage.reported(*pilot, result);
            for index in result.successes.tasks.indices() {
                let task = TaskId { job: result.job, index };
                let executions = self.executions.get(&task).map_or(&[][..], Vec::as_slice);
                let success = |e: &Execution| match e.end {
                    Some((ended, End::Success)) if e.place == place => Some(ended),
                    _ => None,
                };
                let Some(ended) = executions.iter().find_map(success) else {
                    return Err(Violation(format!(
                        "task {task} counts as done on {place}, where it did not succeed"
                    )));
                };
                self.latest = self.latest.max(at.since(ended));
                let Some(book) = self.books.get_mut(&result.job) else { continue };
                ensure!(book.done.insert(index), "task {task} was counted twice");
                ensure!(!book.failed.contains(index), "task {task} had failed before it was done");
                ensure!(!book.cancelled.contains(index), "task {task} had been cancelled before it was done");
            }
            for output in &result.outputs {
                let (index, has_failed) = (output.index, |f: &FailedAttempt| f.index == output.index);
                let has_ended =
                    result.successes.tasks.contains(index) || result.failures.iter().any(has_failed);
                let is_cancelled =
                    || self.books.get(&result.job).is_some_and(|book| book.cancelled.contains(index));
                ensure!(
                    has_ended || is_cancelled(),
                    "output of task {}.{index} is kept, which is still open",
                    result.job
                );
            }
            for failure in &result.failures {
                let task = TaskId { job: result.job, index: failure.index };
                self.failed_once(task, failure.attempt)?;
                match failure.verdict {
                    Verdict::Final => self.failed(task, &failure.kind)?,
                    Verdict::Retry { .. } if self.was_cut_short(*pilot, failure) => {}
                    Verdict::Retry { .. } => self.may_retry(task, failure.kind.blame())?,
                }
            }
        }
        Ok(())
    }

    /// Checks that attempts without success are numbered consecutively.
    fn failed_once(&mut self, task: TaskId, attempt: u32) -> Result<(), Violation> {
        let n = self.n_failures.entry(task).or_default();
        *n += 1;
        ensure!(attempt == *n, "attempt {attempt} of task {task} failed; {n} would come next");
        Ok(())
    }

    /// Rule 3: a task is retried only while the budget of that kind of failure is not used up.
    fn may_retry(&mut self, task: TaskId, blame: Blame) -> Result<(), Violation> {
        let n = self.n_failures_by.entry((task, blame)).or_default();
        *n += 1;
        let limit = match blame {
            Blame::Program => self.books.get(&task.job).map_or(0, |book| book.retries),
            Blame::Node => self.budgets.node_retries,
            Blame::Transfer => self.budgets.transfer_retries,
            Blame::Walltime => self.budgets.walltime_retries,
            // Lost pilots are counted at their loss.
            Blame::Crash | Blame::Nobody => return Ok(()),
            // One of many on a platform that often ends batch jobs for its own reasons.
            Blame::Ended => return Ok(()),
        };
        ensure!(*n <= limit, "task {task} is tried again after {n} failures by fault of: {blame:?}");
        Ok(())
    }

    /// Rule 3: a task fails for good only when the budget of that kind of failure is used up.
    fn failed(&mut self, task: TaskId, kind: &FailureKind) -> Result<(), Violation> {
        let since = self.revoked_at(task).unwrap_or(Time(0));
        let ends = self.executions.get(&task).into_iter().flatten().filter_map(|e| e.end.as_ref());
        let n_ended = ends
            .filter(|(at, end)| {
                *at >= since && matches!(end, End::Failure(other) if other.blame() == kind.blame())
            })
            .count() as u32;
        let Some(book) = self.books.get_mut(&task.job) else { return Ok(()) };
        let (n, budget) = match kind.blame() {
            Blame::Program => (n_ended, book.retries + 1),
            Blame::Node => (n_ended, self.budgets.node_retries + 1),
            Blame::Transfer => (n_ended, self.budgets.transfer_retries + 1),
            Blame::Walltime => (n_ended, self.budgets.walltime_retries + 1),
            Blame::Crash => (self.blamed.get(&task).map_or(0, |lost| lost.len() as u32), book.crash_limit),
            Blame::Nobody => (0, u32::MAX),
            Blame::Ended => {
                let n_lost = self.blamed.get(&task).map_or(0, |lost| lost.len() as u32);
                (n_ended + n_lost, book.crash_limit)
            }
        };
        ensure!(n >= budget, "task {task} failed for good by {kind:?} after {n} of {budget} attempts");
        ensure!(!book.done.contains(task.index), "task {task} failed after it was done");
        ensure!(book.failed.insert(task.index), "task {task} failed for good twice");
        book.order.note_failed(task.index);
        Ok(())
    }

    /// Returns whether every acknowledged task has ended.
    pub(crate) fn is_all_over(&self) -> bool {
        self.books.values().all(Book::is_over)
    }

    pub(crate) fn jobs(&self) -> Vec<JobId> {
        self.books.keys().copied().collect()
    }

    pub(crate) fn n_tasks(&self) -> u64 {
        self.books.values().map(|book| book.n_tasks).sum()
    }
}
