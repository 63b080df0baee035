//! A pilot's own decisions: the tasks to begin, report and return, and when to leave. Pure: the agent's shell
//! starts processes, sends pulls and keeps reports, and feeds the outcome in as events.
//!
//! Time is the pilot's own clock, counted from its start.

mod ahead;
mod cores;
mod giving;
mod hunting;
mod interface;
mod queue;
mod staging;
mod telling;

use std::{
    collections::{BTreeMap, VecDeque},
    ops::RangeInclusive,
};

pub use self::interface::{Ending, Hunted, Lane, PilotAction, PilotEvent, PilotLimits, ReadBy};
use self::{
    ahead::Ahead,
    hunting::Hunting,
    queue::{JobQueue, Next},
    staging::{Delivering, Staged},
};

use crate::{
    ids::{JobId, PilotId, TaskId},
    policy::stealing::PilotStealing,
    pull::{Bundle, LeaveReason, Part, PilotCommand, PullAnswer},
    ranges::TaskSet,
    resources::Resources,
    results::{Failure, FailureKind, JobReport, Report, TaskFiles, TaskOutput, Usage},
    time::{Span, Time},
};

/// A report is sealed when it has this many results. This bounds a message and the cost of a lost answer.
const N_RESULTS_MAX: u64 = 4096;
/// … or this many bytes of output.
const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Once a running task has taken longer than this, free cores are no longer kept for a job whose task does
/// not fit.
const LATE: Span = Span(1_000_000);

/// The pilot's state.
#[derive(Clone, Debug)]
pub struct PilotCore {
    limits: PilotLimits,
    free: Resources,
    /// Number of cores that tasks hold beyond the offered cores.
    n_cores_over: u32,
    jobs: BTreeMap<JobId, JobQueue>,
    /// Moving average of the runtime of tasks of all jobs; `None`: none has ended here.
    mean_us: Option<u64>,
    order: VecDeque<JobId>,
    /// Whether free cores are kept until a task of the next job fits.
    is_kept: bool,
    running: BTreeMap<TaskId, Running>,
    /// Tasks whose processes have ended and whose result is not known yet; with the failure kind of an
    /// earlier kill.
    unjudged: BTreeMap<TaskId, Option<FailureKind>>,
    /// Tasks sent on behind running tasks, and not known to have begun.
    ahead: BTreeMap<TaskId, Ahead>,
    /// Tasks that have not begun, and whose files are here or in transfer.
    staged: BTreeMap<TaskId, Staged>,
    n_staged_ever: u64,
    /// Number of jobs here whose tasks need inputs before they begin.
    n_jobs_with_inputs: usize,
    /// Tasks that have ended, and whose output files are in transfer.
    delivering: BTreeMap<TaskId, Delivering>,
    gathered: BTreeMap<JobId, Gathered>,
    n_gathered: u64,
    output_bytes: usize,
    sealed: VecDeque<Sealed>,
    seq: u64,
    /// Number of pulls sent.
    n_pulls: u64,
    epoch: u64,
    part_seen: u64,
    must_tell: Option<u64>,
    /// The last resync request answered in this epoch.
    told: u64,
    in_flight: [bool; 2],
    leaving: Option<LeaveReason>,
    /// Whether tasks have begun that the manager does not know to be running.
    is_news_untold: bool,
    has_left: bool,
    /// The state of stealing, as thief and as victim.
    hunting: Hunting,
}

#[derive(Clone, Debug)]
struct Running {
    needs: Resources,
    /// The failure kind to report for a kill; `None`: the task was returned.
    killed_for: Option<FailureKind>,
    /// When the task was known to have begun.
    since: Time,
    /// Tasks of its job that wait for its slot, in order.
    followers: VecDeque<u64>,
    /// Whether it takes too long for others to wait for it.
    is_stuck: bool,
}

#[derive(Clone, Debug, Default)]
struct Gathered {
    attempts: Vec<(u64, i32, Usage)>,
    failures: Vec<Failure>,
    returned: TaskSet,
    outputs: Vec<TaskOutput>,
    files: Vec<TaskFiles>,
    given: BTreeMap<PilotId, TaskSet>,
}

#[derive(Clone, Debug)]
struct Sealed {
    seq: u64,
    tasks: Vec<(JobId, TaskSet)>,
}

impl PilotCore {
    /// Makes a pilot that has just started.
    pub fn new(limits: PilotLimits) -> PilotCore {
        PilotCore {
            free: limits.capacity.clone(),
            limits,
            n_cores_over: 0,
            jobs: BTreeMap::new(),
            mean_us: None,
            order: VecDeque::new(),
            is_kept: false,
            running: BTreeMap::new(),
            unjudged: BTreeMap::new(),
            ahead: BTreeMap::new(),
            staged: BTreeMap::new(),
            n_staged_ever: 0,
            n_jobs_with_inputs: 0,
            delivering: BTreeMap::new(),
            gathered: BTreeMap::new(),
            n_gathered: 0,
            output_bytes: 0,
            sealed: VecDeque::new(),
            seq: 0,
            n_pulls: 0,
            epoch: 0,
            part_seen: 0,
            must_tell: None,
            told: 0,
            in_flight: [false; 2],
            leaving: None,
            is_news_untold: false,
            has_left: false,
            hunting: Hunting::default(),
        }
    }

    /// Handles one event and returns the actions for the shell.
    pub fn handle(&mut self, now: Time, event: PilotEvent) -> Vec<PilotAction> {
        let mut actions = Vec::new();
        match event {
            PilotEvent::Registered { acknowledged } => self.seq = self.seq.max(acknowledged),
            PilotEvent::Answered { lane, answer } => {
                self.in_flight[lane as usize] = false;
                self.take_answer(now, *answer, &mut actions);
            }
            PilotEvent::PullFailed { lane } => self.in_flight[lane as usize] = false,
            PilotEvent::Over { task } => {
                if let Some(running) = self.running.remove(&task) {
                    let killed_for = self.next_begins(now, task.job, running);
                    self.unjudged.insert(task, killed_for);
                }
            }
            PilotEvent::Ended { task, ending, usage, output } => {
                self.task_ended(now, (task, ending, usage), output, &mut actions);
                self.forget_if_idle(task.job, &mut actions);
            }
            PilotEvent::Staged { task, result } => {
                self.task_is_staged(task, result);
                self.forget_if_idle(task.job, &mut actions);
            }
            PilotEvent::Delivered { task, result } => {
                self.task_is_delivered(task, result);
                self.forget_if_idle(task.job, &mut actions);
            }
            PilotEvent::Signalled => self.drain(LeaveReason::Signalled, &mut actions),
            PilotEvent::StopAsked => self.stop(LeaveReason::Signalled, &mut actions),
            PilotEvent::AskedFor { thief } => {
                let n_tasks = self.give_half(now, thief, &mut actions);
                actions.push(PilotAction::Gave { thief, n_tasks });
            }
            PilotEvent::Hunted(hunted) => self.hunted(now, hunted),
            PilotEvent::Seen { job, tasks, read, bytes_per_s } => {
                self.seen((job, &tasks), read, bytes_per_s, &mut actions);
                self.forget_if_idle(job, &mut actions);
            }
            PilotEvent::TimerFired => {}
        }
        self.end_by_walltime(now, &mut actions);
        self.relieve(now);
        self.take_back_stuck(now, &mut actions);
        self.begin_tasks(now, &mut actions);
        self.hand_on(now, &mut actions);
        self.stage_next(&mut actions);
        self.pull(&mut actions);
        self.hunt(now, &mut actions);
        self.leave_if_done(&mut actions);
        actions
    }

    /// Returns when [`PilotEvent::TimerFired`] is needed: at the walltime's end less its margin, when a task
    /// has run too long for others to wait for it, and when stealing has to act.
    pub fn next_wakeup(&self) -> Option<Time> {
        let is_over = matches!(self.leaving, Some(LeaveReason::Walltime)) || self.has_left;
        let late_at = self.running.values().map(|running| running.since + LATE).min();
        let late_at = late_at.filter(|_| self.is_kept);
        let last_moment = self.last_moment().filter(|_| !is_over);
        let others = [late_at, self.hunting.wakeup().filter(|_| !self.has_left)];
        last_moment.into_iter().chain(self.stuck_at()).chain(others.into_iter().flatten()).min()
    }

    /// Returns whether tasks wait here for a slot.
    pub fn has_queued(&self) -> bool {
        let is_any_handed_on = !self.ahead.is_empty() || !self.staged.is_empty();
        is_any_handed_on || self.jobs.values().any(|queue| !queue.queued.is_empty())
    }

    /// Returns the number of running tasks.
    pub fn n_running(&self) -> usize {
        self.running.len()
    }

    /// Returns a substitute for a report that cannot be delivered: a report of the same number that returns
    /// its tasks. `None` if the report is acknowledged or was never made here.
    pub fn returning(&self, seq: u64) -> Option<Report> {
        let sealed = self.sealed.iter().find(|sealed| sealed.seq == seq)?;
        let returned = |(job, tasks): &(JobId, TaskSet)| {
            let mut report = JobReport::new(*job);
            report.returned = tasks.clone();
            report
        };
        Some(Report { seq, jobs: sealed.tasks.iter().map(returned).collect() })
    }

    /// Seals reports of all ended tasks, for a shell that gives up: a later process can deliver them.
    pub fn seal_rest(&mut self) -> Vec<PilotAction> {
        let mut actions = Vec::new();
        if self.has_gathered() {
            self.seal(&mut actions);
        }
        actions
    }

    /// Returns whether nothing runs, nothing will, and only the last pull to the manager is left.
    pub fn is_about_to_leave(&self) -> bool {
        let is_idle = self.running.is_empty() && self.ahead.is_empty() && self.delivering.is_empty();
        self.leaving.is_some() && is_idle && self.unjudged.is_empty()
    }

    /// Returns the tasks whose processes have ended and whose result or output files are still missing.
    fn over(&self) -> impl Iterator<Item = &TaskId> {
        self.delivering.keys().chain(self.unjudged.keys())
    }

    fn last_moment(&self) -> Option<Time> {
        let end = self.limits.walltime_end?;
        Some(Time(end.0.saturating_sub(self.limits.walltime_margin.0)))
    }

    fn take_answer(&mut self, now: Time, answer: PullAnswer, actions: &mut Vec<PilotAction>) {
        if answer.epoch < self.epoch {
            return; // Delayed from before the manager's restart: all of it is void.
        }
        if answer.epoch > self.epoch {
            self.epoch = answer.epoch;
            self.part_seen = 0;
            self.told = 0;
        }
        self.must_tell = answer.resync.or(self.must_tell);
        if answer.resync.is_some() {
            // The manager will send the stealing policy again.
            self.obey_stealing(PilotStealing::None, actions);
        }
        while self.sealed.front().is_some_and(|sealed| sealed.seq <= answer.acknowledged) {
            self.sealed.pop_front();
        }
        // Another process may have used report numbers in this pilot's name.
        self.seq = self.seq.max(answer.acknowledged);
        actions.push(PilotAction::Drop { acknowledged: answer.acknowledged });
        // Tasks sent before the manager received our list of tasks are not ours any more.
        let is_void = answer.told < self.told;
        for part in answer.parts.into_iter().filter(|_| !is_void) {
            if part.number > self.part_seen {
                self.part_seen = part.number;
                self.take_part(now, part, actions);
            }
        }
    }

    fn take_part(&mut self, now: Time, part: Part, actions: &mut Vec<PilotAction>) {
        // Commands refer to the tasks of earlier parts.
        for command in part.commands {
            self.obey(now, command, actions);
        }
        for template in part.templates {
            let mut needs = template.needs.clone();
            // A task without needs would fit any number of times.
            needs.resources.cores = needs.resources.cores.max(1);
            match self.jobs.get_mut(&template.job) {
                Some(known) => known.is_over = false,
                None => {
                    self.n_jobs_with_inputs += usize::from(needs.staging.inputs);
                    self.jobs.insert(template.job, JobQueue::new(needs));
                    self.order.push_back(template.job);
                }
            }
            actions.push(PilotAction::Learn(template));
        }
        let in_hand = sets(self.running.keys().chain(self.ahead.keys()).chain(self.over()));
        let mut n_bundles = BTreeMap::<JobId, usize>::new();
        part.bundles.iter().for_each(|bundle| *n_bundles.entry(bundle.job).or_default() += 1);
        for Bundle { job, mut tasks, tried, is_given } in part.bundles {
            // A task must not begin again while the process of its cancelled attempt is still dying.
            let dying = in_hand.get(&job).map_or_else(TaskSet::new, |in_hand| in_hand.intersection(&tasks));
            tasks.remove_all(&dying);
            let returned = match self.jobs.get_mut(&job) {
                Some(queue) => {
                    if queue.needs.staging.inputs {
                        tasks.remove_all(&staging::of_job(&self.staged, job));
                    }
                    queue.add(&tasks, tried, n_bundles[&job] > 1);
                    queue.note_given(&tasks, is_given);
                    self.hunting.work_came(now, is_given);
                    self.look_at(job, &tasks, actions);
                    dying
                }
                None => tasks,
            };
            if !returned.is_empty() {
                self.gathered.entry(job).or_default().returned.insert_all(&returned);
            }
        }
        if self.leaving.is_some() {
            self.give_back_all(actions);
        }
    }

    fn obey(&mut self, now: Time, command: PilotCommand, actions: &mut Vec<PilotAction>) {
        match command {
            PilotCommand::Return { job, tasks } => self.give_back(job, &tasks, actions),
            PilotCommand::Kill { job, tasks } => {
                self.give_back(job, &tasks, actions);
                let in_hand = self.running.range(all_of(job)).map(|(task, _)| task);
                // Tasks that wait for a slot may have begun by now.
                let in_hand = in_hand.chain(self.ahead.range(all_of(job)).map(|(task, _)| task));
                let doomed = in_hand.filter(|task| tasks.contains(task.index));
                actions.extend(doomed.map(|task| PilotAction::Kill { task: *task }));
                self.deliver_no_more(Some((job, &tasks)), None, actions);
            }
            PilotCommand::Forget { job } => {
                if let Some(queue) = self.jobs.get_mut(&job) {
                    queue.is_over = true;
                }
                self.forget_if_idle(job, actions);
            }
            PilotCommand::Drain => self.drain(LeaveReason::Told, actions),
            PilotCommand::Stop => self.stop(LeaveReason::Told, actions),
            PilotCommand::Offer { cores } => self.offer(cores),
            PilotCommand::Show => actions.push(PilotAction::Show),
            PilotCommand::Steal { policy } => self.obey_stealing(policy, actions),
            PilotCommand::Give { to } => _ = self.give_half(now, to, actions),
        }
    }

    /// Forgets a job that has ended, once none of its processes is left.
    fn forget_if_idle(&mut self, job: JobId, actions: &mut Vec<PilotAction>) {
        let is_over = self.jobs.get(&job).is_some_and(|queue| queue.is_over && queue.queued.is_empty());
        let in_hand = || self.running.keys().chain(self.ahead.keys()).chain(self.over());
        let is_idle = || in_hand().chain(self.staged.keys()).all(|task| task.job != job);
        if is_over && is_idle() {
            let queue = self.jobs.remove(&job);
            self.n_jobs_with_inputs -= usize::from(queue.is_some_and(|queue| queue.needs.staging.inputs));
            self.order.retain(|other| *other != job);
            actions.push(PilotAction::Forget { job });
        }
    }

    fn drain(&mut self, reason: LeaveReason, actions: &mut Vec<PilotAction>) {
        self.leaving.get_or_insert(reason);
        self.give_back_all(actions);
    }

    fn stop(&mut self, reason: LeaveReason, actions: &mut Vec<PilotAction>) {
        self.drain(reason, actions);
        // Tasks that wait for a slot may have begun by now.
        let in_hand = self.running.keys().chain(self.ahead.keys());
        actions.extend(in_hand.map(|task| PilotAction::Kill { task: *task }));
        self.deliver_no_more(None, None, actions);
    }

    /// Stops the pilot near the end of the walltime: it begins nothing new and kills the running tasks, as
    /// failures of kind `walltime`.
    fn end_by_walltime(&mut self, now: Time, actions: &mut Vec<PilotAction>) {
        let is_near = self.last_moment().is_some_and(|last| now >= last);
        if !is_near || self.leaving == Some(LeaveReason::Walltime) || self.has_left {
            return;
        }
        for running in self.running.values_mut() {
            running.killed_for = Some(FailureKind::Walltime);
        }
        self.deliver_no_more(None, Some(FailureKind::Walltime), actions);
        self.stop(LeaveReason::Walltime, actions);
        self.leaving = Some(LeaveReason::Walltime);
    }

    /// Begins queued tasks. The job with the fewest cores here goes first, then the job served longest ago:
    /// turns alone would give a job with tenfold runtimes ten times the cores. No job passes by one whose
    /// tasks need more than is free, which would otherwise never run, unless a long task is in the way.
    fn begin_tasks(&mut self, now: Time, actions: &mut Vec<PilotAction>) {
        self.is_kept = false;
        if self.leaving.is_some() {
            return;
        }
        let last_moment = self.last_moment();
        for job in self.in_turn() {
            let Some(queue) = self.jobs.get_mut(&job) else { continue };
            let limit = queue.needs.time_limit.unwrap_or(Span::ZERO);
            let ends_in_time = last_moment.is_none_or(|last| now + limit <= last);
            if !ends_in_time {
                self.give_back(job, &TaskSet::from(0..u64::MAX), actions);
                continue;
            }
            let is_staged = queue.needs.staging.inputs;
            let is_none =
                if is_staged { !staging::is_any_here(&self.staged, job) } else { queue.queued.is_empty() };
            if is_none {
                continue;
            }
            let needs = queue.needs.resources.clone();
            let n = needs.how_often_in(&self.free);
            if n == 0 {
                if self.free.cores > 0 && self.has_late(now) {
                    continue;
                }
                self.is_kept = self.free.cores > 0;
                return;
            }
            let begun = match is_staged {
                true => self.take_staged(job, n),
                false => queue.take_next(n),
            };
            for Next { index, attempt, .. } in begun {
                let task = TaskId { job, index };
                self.free.take(&needs, 1);
                self.running.insert(task, Running::new(needs.clone(), now, VecDeque::new()));
                self.is_news_untold = true;
                actions.push(PilotAction::Start { task, attempt, after: None });
            }
            self.goes_last(job);
        }
    }

    /// Returns whether a task has run for so long that free cores do not wait for its end.
    fn has_late(&self, now: Time) -> bool {
        self.running.values().any(|running| now >= running.since + LATE)
    }

    fn in_turn(&self) -> Vec<JobId> {
        let mut jobs: Vec<JobId> = self.order.iter().copied().collect();
        let cores = self.cores_held();
        if !cores.is_empty() {
            jobs.sort_by_key(|job| cores.get(job).copied().unwrap_or(0));
        }
        jobs
    }

    /// Moves the job to the end of the order of turns.
    fn goes_last(&mut self, job: JobId) {
        self.order.retain(|other| *other != job);
        self.order.push_back(job);
    }

    fn pull(&mut self, actions: &mut Vec<PilotAction>) {
        if self.has_left {
            return;
        }
        while self.n_gathered >= N_RESULTS_MAX || self.output_bytes >= OUTPUT_BYTES_MAX {
            self.seal(actions);
        }
        if self.in_flight[Lane::Report as usize] {
            return;
        }
        if self.sealed.is_empty() && self.has_gathered() {
            self.seal(actions);
        }
        let report = self.sealed.front().map(|sealed| sealed.seq);
        match report {
            Some(_) => self.send(Lane::Report, report, actions),
            // A leaving pilot listens as long as something runs: the manager may have it killed, and a silent
            // pilot counts as lost.
            None if !self.in_flight[Lane::Listen as usize] && !self.is_about_to_leave() => {
                self.send(Lane::Listen, None, actions);
            }
            None if (self.must_tell.is_some() || self.is_news_untold) && !self.is_about_to_leave() => {
                self.send(Lane::Report, None, actions)
            }
            None => {}
        }
    }

    fn has_gathered(&self) -> bool {
        self.gathered.values().any(|g| {
            let has_ended = !g.attempts.is_empty() || !g.failures.is_empty();
            has_ended || !g.returned.is_empty() || !g.given.is_empty()
        })
    }

    fn leave_if_done(&mut self, actions: &mut Vec<PilotAction>) {
        let Some(reason) = self.leaving else { return };
        let is_done = self.is_about_to_leave() && self.sealed.is_empty() && !self.has_gathered();
        if is_done && !self.has_left {
            self.has_left = true;
            actions.push(PilotAction::Leave { reason });
        }
    }
}

impl Running {
    fn new(needs: Resources, since: Time, followers: VecDeque<u64>) -> Running {
        Running { needs, killed_for: None, since, followers, is_stuck: false }
    }
}

/// Returns the range of all tasks of a job.
fn all_of(job: JobId) -> RangeInclusive<TaskId> {
    TaskId { job, index: 0 }..=TaskId { job, index: u64::MAX }
}

/// Groups tasks by job.
fn sets<'a>(tasks: impl Iterator<Item = &'a TaskId>) -> BTreeMap<JobId, TaskSet> {
    let mut sets: BTreeMap<JobId, TaskSet> = BTreeMap::new();
    for task in tasks {
        sets.entry(task.job).or_default().insert(task.index);
    }
    sets
}

#[cfg(test)]
mod tests;
