//! Sends short tasks on before there is a slot for them: each waits behind a running task and begins when
//! that task has ended, without a request to this module, which would leave the slot idle for a good part of
//! the runtime.
//!
//! The end of the task before it tells that a task has begun. Until then it counts as queued.

use std::collections::VecDeque;

use super::queue::JobQueue;
use super::{Ending, PilotAction, PilotCore, Running, all_of};
use crate::{
    ids::{JobId, TaskId},
    ranges::TaskSet,
    results::FailureKind,
    time::{Span, Time},
};

/// The amount of work that waits behind each running task, by the mean runtime of its job.
const AHEAD: Span = Span(10_000);
/// … and no more tasks than this.
const N_AHEAD_MAX: u64 = 64;
/// No task waits behind a task that has run for longer than this: other slots may be free sooner.
pub(super) const STUCK: Span = Span(100_000);
/// Waiting tasks begin without a request, so none is sent on when less than this is left until the last
/// moment to begin.
const LAST_MINUTE: Span = Span(60_000_000);

/// A task that waits for the slot of a running task.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    attempt: u32,
    fate: Fate,
}

/// The fate of a task that waits for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// The task begins in the slot.
    Begin,
    /// The task joins the pilot's queue, if it has not begun.
    Queue,
    /// The task returns to the manager, if it has not begun.
    Return,
}

impl JobQueue {
    /// Returns how many tasks may wait behind each running task: none for a job with files, because only
    /// [`PilotCore`] knows whether its inputs are here and when its output files are delivered.
    fn n_ahead(&self) -> u64 {
        if self.needs.staging.is_any() {
            return 0;
        }
        self.mean_us.map_or(0, |mean_us| (AHEAD.0 / mean_us.max(1)).min(N_AHEAD_MAX))
    }
}

impl PilotCore {
    /// Lets tasks wait behind running tasks of their job, unless a job with fewer cores is to have these
    /// cores.
    pub(super) fn hand_on(&mut self, now: Time, actions: &mut Vec<PilotAction>) {
        let cores = self.cores_held();
        let cores_of = |job: &JobId| cores.get(job).copied().unwrap_or(0);
        let is_queued = |job: &JobId| self.jobs.get(job).is_some_and(|queue| !queue.queued.is_empty());
        let Some(fewest) = self.order.iter().filter(|job| is_queued(job)).map(cores_of).min() else { return };
        let gives_way = |job: &JobId| {
            let needs = self.jobs.get(job).map_or(0, |queue| u64::from(queue.needs.resources.cores));
            fewest + needs <= cores_of(job)
        };
        let stay: Vec<JobId> =
            cores.keys().copied().filter(|job| is_queued(job) && !gives_way(job)).collect();
        for job in stay {
            self.hand_on_tasks_of(job, now, actions);
        }
    }

    fn hand_on_tasks_of(&mut self, job: JobId, now: Time, actions: &mut Vec<PilotAction>) {
        let last_moment = self.last_moment();
        let Some(queue) = self.jobs.get_mut(&job) else { return };
        let limit = queue.needs.time_limit.unwrap_or(Span::ZERO);
        let is_late = last_moment.is_some_and(|last| now + limit + LAST_MINUTE > last);
        if is_late || self.leaving.is_some() || queue.n_ahead() == 0 || self.n_cores_over > 0 {
            return;
        }
        // Half of the tasks stay in the queue, for the first slot that becomes free.
        let share = queue.queued.len() / 2 / (self.running.range(all_of(job)).count() as u64).max(1);
        let n_ahead = queue.n_ahead().min(share);
        for (head, running) in self.running.range_mut(all_of(job)) {
            let n_waiting = running.followers.len() as u64;
            let is_slow = now >= running.since + STUCK;
            // Sends several at a time, so that not every end of a task makes work here.
            if is_slow || n_waiting * 2 > n_ahead {
                continue;
            }
            for index in queue.take_first(n_ahead.saturating_sub(n_waiting)).indices() {
                let (task, attempt) = (TaskId { job, index }, queue.tried.remove(&index).unwrap_or(1));
                running.followers.push_back(index);
                self.ahead.insert(task, Ahead { attempt, fate: Fate::Begin });
                actions.push(PilotAction::Start { task, attempt, after: Some(*head) });
            }
        }
    }

    /// Handles the end of a running task: the first task that waits for its slot has begun, or the slot is
    /// free. Returns the failure kind to report if the ended task was killed.
    pub(super) fn next_begins(&mut self, now: Time, job: JobId, ended: Running) -> Option<FailureKind> {
        let Running { needs, killed_for, mut followers, .. } = ended;
        match followers.pop_front() {
            Some(index) => {
                let task = TaskId { job, index };
                self.ahead.remove(&task);
                self.running.insert(task, Running::new(needs, now, followers));
                self.is_news_untold = true;
            }
            None => self.come_free(&needs),
        }
        killed_for
    }

    /// Removes a task that waited for a slot and ended without beginning. Returns true if it has ended for
    /// good, other than by our withdrawal.
    pub(super) fn ends_unbegun(&mut self, task: TaskId, ending: &Ending) -> bool {
        let Some(Ahead { attempt, fate }) = self.ahead.remove(&task) else { return false };
        for (_, running) in self.running.range_mut(all_of(task.job)) {
            running.followers.retain(|index| *index != task.index);
        }
        if *ending != Ending::Killed {
            return true;
        }
        match self.jobs.get_mut(&task.job) {
            Some(queue) if fate == Fate::Queue && self.leaving.is_none() => {
                queue.queued.insert(task.index);
                if attempt > 1 {
                    queue.tried.insert(task.index, attempt);
                }
            }
            _ => {
                self.gathered.entry(task.job).or_default().returned.insert(task.index);
            }
        }
        false
    }

    /// Withdraws waiting tasks, to return them to the manager unless they have begun.
    pub(super) fn withdraw(&mut self, job: JobId, tasks: &TaskSet, actions: &mut Vec<PilotAction>) {
        for (task, ahead) in self.ahead.range_mut(all_of(job)).filter(|(task, _)| tasks.contains(task.index))
        {
            if ahead.fate == Fate::Begin {
                actions.push(PilotAction::Withdraw { task: *task });
            }
            ahead.fate = Fate::Return;
        }
    }

    /// Returns when the first running task that others wait for will have run for too long.
    pub(super) fn stuck_at(&self) -> Option<Time> {
        let waited_for =
            self.running.values().filter(|running| !running.is_stuck && !running.followers.is_empty());
        waited_for.map(|running| running.since + STUCK).min()
    }

    /// Withdraws tasks that wait behind a long task, so that they begin in any free slot.
    pub(super) fn take_back_stuck(&mut self, now: Time, actions: &mut Vec<PilotAction>) {
        if self.stuck_at().is_none_or(|at| now < at) {
            return;
        }
        let mut stuck: Vec<(JobId, VecDeque<u64>)> = Vec::new();
        for (task, running) in &mut self.running {
            if now >= running.since + STUCK && !running.is_stuck && !running.followers.is_empty() {
                running.is_stuck = true;
                stuck.push((task.job, running.followers.clone()));
            }
        }
        for (job, followers) in stuck {
            self.note_wall(job, STUCK.0);
            for index in followers {
                let task = TaskId { job, index };
                if let Some(ahead) = self.ahead.get_mut(&task).filter(|ahead| ahead.fate == Fate::Begin) {
                    ahead.fate = Fate::Queue;
                    actions.push(PilotAction::Withdraw { task });
                }
            }
        }
    }

    /// Updates the mean runtimes of the job and of all jobs.
    pub(super) fn note_wall(&mut self, job: JobId, wall_us: u64) {
        let with = |mean_us: Option<u64>| mean_us.map_or(wall_us, |mean| mean - mean / 8 + wall_us / 8);
        self.mean_us = Some(with(self.mean_us));
        if let Some(queue) = self.jobs.get_mut(&job) {
            queue.mean_us = Some(with(queue.mean_us));
        }
    }
}
