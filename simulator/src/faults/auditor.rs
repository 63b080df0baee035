//! Keeps a history of its own and checks the design's rules against it. It sees what a bystander
//! sees: what users were answered, which records became durable, which processes began and ended on
//! which node, what the sites hold. Of the engine's state it knows nothing.

use std::collections::BTreeMap;

use scheduler::{
    engine::record::{Record, Verdict},
    ids::{AllocationId, JobId, PilotId, TaskId},
    ranges::TaskSet,
    results::{Blame, FailureKind},
    time::{Span, Time},
};

use super::Violation;

/// One process of a task.
#[derive(Debug)]
struct Execution {
    /// The allocation's tag of the pilot that ran it.
    tag: String,
    /// When the manager sent word that the pilot is to run the task.
    given: Time,
    /// Begun by a pilot of which the manager did not know then what it held.
    is_stray: bool,
    end: Option<(Time, End)>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Success,
    Failure(FailureKind),
    /// Killed because the pilot was told to, or together with its pilot.
    Killed,
}

/// What must become of a job.
#[derive(Debug)]
struct Book {
    n_tasks: u64,
    retries: u32,
    crash_limit: u32,
    done: TaskSet,
    failed: TaskSet,
    cancelled: TaskSet,
}

/// What holds for all jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budgets {
    pub(super) node_retries: u32,
    pub(super) walltime_retries: u32,
    /// How long tasks are withheld for pilots after a restart.
    pub(super) grace: Span,
}

#[derive(Debug)]
pub(super) struct Auditor {
    budgets: Budgets,
    books: BTreeMap<JobId, Book>,
    keys: BTreeMap<String, JobId>,
    executions: BTreeMap<TaskId, Vec<Execution>>,
    tags: BTreeMap<AllocationId, String>,
    pilots: BTreeMap<PilotId, String>,
    reported: BTreeMap<PilotId, u64>,
    /// When a pilot's tasks were last free for others: it left, was given up, or died.
    freed: BTreeMap<String, Time>,
    /// When a task was last taken from whoever had it: cancelled, or opened again.
    revoked: BTreeMap<TaskId, Time>,
    /// How often a task was blamed for a lost pilot since it was last opened.
    blamed: BTreeMap<TaskId, u32>,
    /// How often its program failed since then.
    n_program_failures: BTreeMap<TaskId, u32>,
    manager_started: Time,
    /// When pilots first told this manager what they hold.
    in_step: BTreeMap<PilotId, Time>,
    /// … when they told it again, after having been given up or after a restart.
    back_in_step: BTreeMap<PilotId, Time>,
    pub(super) n_executions: u64,
    pub(super) n_repeated: u64,
    /// The longest time between a success and its being kept.
    pub(super) latest: Span,
}

macro_rules! ensure {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err(Violation(format!($($what)*)));
        }
    };
}

impl Auditor {
    pub(super) fn new(budgets: Budgets) -> Auditor {
        Auditor {
            budgets,
            books: BTreeMap::new(),
            keys: BTreeMap::new(),
            executions: BTreeMap::new(),
            tags: BTreeMap::new(),
            pilots: BTreeMap::new(),
            reported: BTreeMap::new(),
            freed: BTreeMap::new(),
            revoked: BTreeMap::new(),
            blamed: BTreeMap::new(),
            n_program_failures: BTreeMap::new(),
            manager_started: Time(0),
            in_step: BTreeMap::new(),
            back_in_step: BTreeMap::new(),
            n_executions: 0,
            n_repeated: 0,
            latest: Span::ZERO,
        }
    }

    pub(super) fn manager_starts(&mut self, now: Time) {
        self.manager_started = now;
        self.in_step.clear();
    }

    /// The manager answers a pilot's pull and asks nothing: it knows what the pilot holds.
    pub(super) fn is_in_step(&mut self, pilot: PilotId, now: Time) {
        if self.in_step.contains_key(&pilot) {
            return;
        }
        self.in_step.insert(pilot, now);
        // The first time of all is not a return.
        self.back_in_step.entry(pilot).and_modify(|at| *at = now).or_insert(Time(0));
    }

    /// A user was told that the job is kept. Rule 1: then it is durable; a submission is one job only.
    pub(super) fn acknowledged(&mut self, key: &str, job: JobId) -> Result<(), Violation> {
        ensure!(self.books.contains_key(&job), "job {job} was acknowledged before it was durable");
        let known = *self.keys.entry(key.to_owned()).or_insert(job);
        ensure!(known == job, "submission {key} became job {known} and job {job}");
        Ok(())
    }

    /// A pilot was told that its reports up to `seq` are kept. Rule 1: then they are.
    pub(super) fn report_acknowledged(&mut self, pilot: PilotId, seq: u64) -> Result<(), Violation> {
        let kept = self.reported.get(&pilot).copied().unwrap_or(0);
        ensure!(seq <= kept, "report {seq} of pilot {pilot} was acknowledged, {kept} is the last one kept");
        Ok(())
    }

    /// A process begins, of a task given to its pilot at that time. Rule 2: nobody else has it.
    pub(super) fn started(
        &mut self,
        task: TaskId,
        tag: &str,
        given: Time,
        now: Time,
    ) -> Result<usize, Violation> {
        let is_stray = self.is_stray(task, tag, given);
        for other in self.executions.get(&task).into_iter().flatten() {
            let is_over = matches!(other.end, Some((_, End::Failure(_) | End::Killed)));
            ensure!(
                is_over || is_stray || other.is_stray || self.was_freed(task, other, now),
                "task {task} began on {tag} while {} has it: {other:?}",
                other.tag
            );
            ensure!(other.tag != tag || other.end.is_some(), "task {task} began twice on {tag}");
        }
        let others = self.executions.get(&task).into_iter().flatten();
        let freed: Vec<bool> = others.map(|other| self.was_freed(task, other, now)).collect();
        let executions = self.executions.entry(task).or_default();
        // Whoever claims a task that was given to another meanwhile has it no more.
        executions.iter_mut().zip(freed).for_each(|(other, freed)| other.is_stray |= freed);
        self.n_executions += 1;
        self.n_repeated += u64::from(!executions.is_empty());
        executions.push(Execution { tag: tag.to_owned(), given, is_stray, end: None });
        Ok(executions.len() - 1)
    }

    fn pilot(&self, tag: &str) -> Option<PilotId> {
        self.pilots.iter().rev().find(|(_, held)| *held == tag).map(|(pilot, _)| *pilot)
    }

    /// A task may begin where it was taken away, while the news is on their way: when the pilot was given
    /// up, the task revoked, or the manager restarted since the pilot was given the task.
    fn is_stray(&self, task: TaskId, tag: &str, given: Time) -> bool {
        let Some(pilot) = self.pilot(tag).filter(|pilot| self.in_step.contains_key(pilot)) else {
            return true;
        };
        let is_back = self.back_in_step.get(&pilot).is_some_and(|at| *at >= given);
        let is_revoked = self.revoked.get(&task).is_some_and(|at| *at >= given);
        is_back || is_revoked || self.manager_started >= given
    }

    /// Whether the task may be given to others although that execution has not failed: its pilot was
    /// given up or the task revoked, or nobody has claimed it within the grace period after a restart.
    fn was_freed(&self, task: TaskId, execution: &Execution, now: Time) -> bool {
        let freed = self.freed.get(&execution.tag).into_iter().chain(self.revoked.get(&task));
        let grace_end = self.manager_started + self.budgets.grace;
        let claim = self.pilot(&execution.tag).and_then(|pilot| self.in_step.get(&pilot));
        let is_unclaimed = now >= grace_end && claim.is_none_or(|at| *at >= grace_end);
        freed.into_iter().any(|at| *at >= execution.given)
            || (is_unclaimed && self.manager_started >= execution.given)
    }

    pub(super) fn ended(&mut self, task: TaskId, execution: usize, end: End, now: Time) {
        if let Some(held) = self.executions.get_mut(&task).and_then(|held| held.get_mut(execution)) {
            held.end.get_or_insert((now, end));
        }
    }

    /// A pilot's process is gone, and all of its tasks' processes with it.
    pub(super) fn pilot_died(&mut self, tag: &str, now: Time) {
        self.freed.insert(tag.to_owned(), now);
    }

    /// A site holds so many of our batch jobs. Rule 6.
    pub(super) fn site_holds(&self, site: &str, n: usize, limit: u32) -> Result<(), Violation> {
        ensure!(n <= limit as usize, "{site} holds {n} of our batch jobs; the limit is {limit}");
        Ok(())
    }

    /// Records became durable.
    pub(super) fn kept(&mut self, record: &Record) -> Result<(), Violation> {
        match record {
            Record::JobAccepted { job, request, .. } => {
                let book = Book {
                    n_tasks: request.n_tasks,
                    retries: request.retries,
                    crash_limit: request.crash_limit,
                    done: TaskSet::new(),
                    failed: TaskSet::new(),
                    cancelled: TaskSet::new(),
                };
                ensure!(self.books.insert(*job, book).is_none(), "job {job} was accepted twice");
            }
            Record::AllocationIntended { allocation, tag, .. } => {
                self.tags.insert(*allocation, tag.clone());
            }
            Record::PilotRegistered { pilot, allocation, .. } => {
                let tag = self.tags.get(allocation).cloned().unwrap_or_default();
                self.pilots.insert(*pilot, tag);
            }
            Record::PilotLeft { pilot, at, .. } => self.pilot_gone(*pilot, *at),
            Record::PilotLost { pilot, blamed, at, .. } => {
                self.pilot_gone(*pilot, *at);
                for blame in blamed {
                    *self.blamed.entry(blame.task).or_default() += 1;
                    if blame.verdict == Verdict::Final {
                        self.failed(blame.task, &FailureKind::PilotLost)?;
                    } else if let Some(book) = self.books.get(&blame.task.job) {
                        let n = self.blamed[&blame.task];
                        ensure!(
                            n < book.crash_limit,
                            "task {} is tried again after {n} lost pilots",
                            blame.task
                        );
                    }
                }
            }
            Record::TasksCancelled { job, tasks, at, .. } => {
                let Some(book) = self.books.get_mut(job) else { return Ok(()) };
                ensure!(
                    tasks.intersection(&book.done).is_empty(),
                    "finished tasks of job {job} were cancelled"
                );
                book.cancelled.insert_all(tasks);
                self.revoke(*job, tasks, *at);
            }
            Record::TasksReopened { job, tasks, at } => {
                let Some(book) = self.books.get_mut(job) else { return Ok(()) };
                ensure!(tasks.intersection(&book.done).is_empty(), "finished tasks of job {job} were opened");
                book.failed.remove_all(tasks);
                book.cancelled.remove_all(tasks);
                self.revoke(*job, tasks, *at);
            }
            Record::Reported { .. } => self.report_kept(record)?,
            _ => {}
        }
        Ok(())
    }

    fn pilot_gone(&mut self, pilot: PilotId, at: Time) {
        if let Some(tag) = self.pilots.get(&pilot) {
            self.freed.insert(tag.clone(), at);
        }
        self.in_step.remove(&pilot);
    }

    fn revoke(&mut self, job: JobId, tasks: &TaskSet, at: Time) {
        for index in tasks.indices() {
            let task = TaskId { job, index };
            self.revoked.insert(task, at);
            self.blamed.remove(&task);
            self.n_program_failures.remove(&task);
        }
    }

    /// Rule 2: each task has one result, and a process that earned it.
    fn report_kept(&mut self, record: &Record) -> Result<(), Violation> {
        let Record::Reported { pilot, seq, results, at } = record else { return Ok(()) };
        let before = self.reported.insert(*pilot, *seq).unwrap_or(0);
        ensure!(*seq == before + 1, "report {seq} of pilot {pilot} was taken after {before}");
        let tag = self.pilots.get(pilot).cloned().unwrap_or_default();
        for result in results {
            for index in result.successes.tasks.indices() {
                let task = TaskId { job: result.job, index };
                let executions = self.executions.get(&task).map_or(&[][..], Vec::as_slice);
                let success = |e: &Execution| match e.end {
                    Some((ended, End::Success)) if e.tag == tag => Some(ended),
                    _ => None,
                };
                let Some(ended) = executions.iter().find_map(success) else {
                    return Err(Violation(format!(
                        "task {task} counts as done on {tag}, where it did not succeed"
                    )));
                };
                self.latest = self.latest.max(at.since(ended));
                let Some(book) = self.books.get_mut(&result.job) else { continue };
                ensure!(book.done.insert(index), "task {task} was counted twice");
                ensure!(!book.failed.contains(index), "task {task} had failed before it was done");
                ensure!(!book.cancelled.contains(index), "task {task} had been cancelled before it was done");
            }
            for failure in &result.failures {
                let task = TaskId { job: result.job, index: failure.index };
                let retries = self.books.get(&task.job).map_or(0, |book| book.retries);
                let n = self.n_program_failures.entry(task).or_default();
                *n += u32::from(failure.kind.blame() == Blame::Program);
                match failure.verdict {
                    Verdict::Final => self.failed(task, &failure.kind)?,
                    Verdict::Retry { .. } => {
                        ensure!(*n <= retries, "task {task} is tried again after {n} failures of its own");
                    }
                }
            }
        }
        Ok(())
    }

    /// Rule 3: a task fails for good only when the budget of that kind of failure is used up.
    fn failed(&mut self, task: TaskId, kind: &FailureKind) -> Result<(), Violation> {
        let since = self.revoked.get(&task).copied().unwrap_or(Time(0));
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
            Blame::Walltime => (n_ended, self.budgets.walltime_retries + 1),
            Blame::Crash => (self.blamed.get(&task).copied().unwrap_or(0), book.crash_limit),
            Blame::Nobody => (0, u32::MAX),
        };
        ensure!(n >= budget, "task {task} failed for good by {kind:?} after {n} of {budget} attempts");
        ensure!(!book.done.contains(task.index), "task {task} failed after it was done");
        ensure!(book.failed.insert(task.index), "task {task} failed for good twice");
        Ok(())
    }

    /// Whether every acknowledged task has ended.
    pub(super) fn is_all_over(&self) -> bool {
        self.books
            .values()
            .all(|book| book.done.len() + book.failed.len() + book.cancelled.len() == book.n_tasks)
    }

    pub(super) fn jobs(&self) -> Vec<JobId> {
        self.books.keys().copied().collect()
    }

    /// What the manager tells a reader at the end is what happened. Rules 1 and 2.
    pub(super) fn told(&self, job: JobId, sets: [&TaskSet; 3]) -> Result<(), Violation> {
        let Some(book) = self.books.get(&job) else { return Ok(()) };
        for (word, told, known) in [
            ("done", sets[0], &book.done),
            ("failed", sets[1], &book.failed),
            ("cancelled", sets[2], &book.cancelled),
        ] {
            ensure!(told == known, "job {job}: {told} are said to be {word}; {known} are");
        }
        Ok(())
    }

    pub(super) fn n_tasks(&self) -> u64 {
        self.books.values().map(|book| book.n_tasks).sum()
    }
}
