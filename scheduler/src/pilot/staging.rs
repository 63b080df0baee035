//! Stage-in before a task begins and stage-out after it has ended. Neither holds a slot: other tasks run
//! during the transfers.
//!
//! A task in stage-in counts as queued: it can be returned. A task in stage-out has ended and is not reported
//! yet: its success is reported only when its output files are at their destination.

use std::collections::BTreeMap;

use super::{PilotAction, PilotCore, all_of, queue::Next, sets};
use crate::{
    ids::{JobId, TaskId},
    ranges::TaskSet,
    results::{Failure, FailureKind, OutputFile, TaskFiles, TaskOutput, Usage},
};

/// Number of tasks per slot whose inputs are brought: the next one, and one more, because tasks may be
/// shorter than transfers. A larger number would keep tasks from pilots that could begin them sooner.
const N_STAGED_PER_SLOT: u64 = 2;

/// A task that has not begun, and whose files are here or in transfer.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    next: Next,
    /// Its place in the order: a smaller number begins earlier.
    number: u64,
    pub(super) is_here: bool,
}

/// The result of a task that has succeeded and whose output files are in transfer.
#[derive(Clone, Debug)]
pub(super) struct Delivering {
    pub(super) code: i32,
    pub(super) usage: Usage,
    pub(super) output: Option<TaskOutput>,
}

/// Returns the tasks in the order in which they begin.
fn in_order<'a>(staged: impl Iterator<Item = (&'a TaskId, &'a Staged)>) -> Vec<Next> {
    let mut staged: Vec<&Staged> = staged.map(|(_, staged)| staged).collect();
    staged.sort_unstable_by_key(|staged| staged.number);
    staged.into_iter().map(|staged| staged.next).collect()
}

/// Returns the staged tasks of a job.
pub(super) fn of_job(staged: &BTreeMap<TaskId, Staged>, job: JobId) -> TaskSet {
    let tasks = staged.range(all_of(job)).map(|(task, _)| task);
    sets(tasks).remove(&job).unwrap_or_default()
}

/// Returns whether the files of any staged task of the job are here.
pub(super) fn is_any_here(staged: &BTreeMap<TaskId, Staged>, job: JobId) -> bool {
    staged.range(all_of(job)).any(|(_, staged)| staged.is_here)
}

impl PilotCore {
    /// Returns whether nothing runs, nothing will, and output files are still in transfer.
    pub fn is_only_delivering(&self) -> bool {
        let is_idle = self.running.is_empty() && self.ahead.is_empty();
        self.leaving.is_some() && is_idle && !self.delivering.is_empty()
    }

    /// Starts to bring the inputs of the tasks that begin next.
    pub(super) fn stage_next(&mut self, actions: &mut Vec<PilotAction>) {
        if self.n_jobs_with_inputs == 0 || self.leaving.is_some() {
            return;
        }
        for job in &self.order {
            let Some(queue) = self.jobs.get_mut(job).filter(|queue| queue.needs.staging.inputs) else {
                continue;
            };
            if queue.queued.is_empty() {
                continue;
            }
            let n_slots = queue.needs.resources.how_often_in(&self.limits.capacity).max(1);
            let n_here = self.staged.range(all_of(*job)).count() as u64;
            let n_more = n_slots.saturating_mul(N_STAGED_PER_SLOT).saturating_sub(n_here);
            for next in queue.take_next(n_more) {
                let task = TaskId { job: *job, index: next.index };
                self.n_staged_ever += 1;
                let number = self.n_staged_ever;
                self.staged.insert(task, Staged { next, number, is_here: false });
                actions.push(PilotAction::Stage { task });
            }
        }
    }

    /// Takes up to `n` tasks of a job whose files are here, in their order.
    pub(super) fn take_staged(&mut self, job: JobId, n: u64) -> Vec<Next> {
        let mut here = in_order(self.staged.range(all_of(job)).filter(|(_, staged)| staged.is_here));
        here.truncate(usize::try_from(n).unwrap_or(usize::MAX));
        for next in &here {
            self.staged.remove(&TaskId { job, index: next.index });
        }
        here
    }

    /// Returns the tasks of a job whose files are here or in transfer, in their order.
    pub(super) fn staged_of(&self, job: JobId) -> Vec<Next> {
        in_order(self.staged.range(all_of(job)))
    }

    /// Handles the end of a stage-in.
    pub(super) fn task_is_staged(&mut self, task: TaskId, result: Result<(), FailureKind>) {
        let Some(staged) = self.staged.get_mut(&task) else { return };
        let Err(kind) = result else {
            staged.is_here = true;
            return;
        };
        self.staged.remove(&task);
        let failure = Failure { index: task.index, kind, usage: Usage::default() };
        self.gathered.entry(task.job).or_default().failures.push(failure);
        self.n_gathered += 1;
    }

    /// Handles the end of a stage-out.
    pub(super) fn task_is_delivered(&mut self, task: TaskId, result: Result<Vec<OutputFile>, FailureKind>) {
        let Some(Delivering { code, usage, output }) = self.delivering.remove(&task) else { return };
        let gathered = self.gathered.entry(task.job).or_default();
        match result {
            Ok(files) => {
                gathered.attempts.push((task.index, code, usage));
                if !files.is_empty() {
                    gathered.files.push(TaskFiles { index: task.index, files });
                }
            }
            Err(kind) => gathered.failures.push(Failure { index: task.index, kind, usage }),
        }
        self.n_gathered += 1;
        self.gather_output(task.job, output);
    }

    /// Removes those of the tasks that have not begun and whose files are here or in transfer, stops the
    /// transfers, and returns the tasks.
    pub(super) fn unstage(&mut self, job: JobId, tasks: &TaskSet, actions: &mut Vec<PilotAction>) -> TaskSet {
        if self.staged.is_empty() {
            return TaskSet::new();
        }
        let unstaged = of_job(&self.staged, job).intersection(tasks);
        for index in unstaged.indices() {
            let task = TaskId { job, index };
            self.staged.remove(&task);
            actions.push(PilotAction::Unstage { task });
        }
        unstaged
    }

    /// Stops the stage-out of these tasks (`None`: of all tasks): they have failed with `kind`, or are
    /// returned.
    pub(super) fn deliver_no_more(
        &mut self,
        of: Option<(JobId, &TaskSet)>,
        kind: Option<FailureKind>,
        actions: &mut Vec<PilotAction>,
    ) {
        if self.delivering.is_empty() {
            return;
        }
        let is_meant =
            |task: &TaskId| of.is_none_or(|(job, tasks)| task.job == job && tasks.contains(task.index));
        let meant: Vec<TaskId> = self.delivering.keys().copied().filter(is_meant).collect();
        for task in meant {
            let Some(Delivering { usage, .. }) = self.delivering.remove(&task) else { continue };
            actions.push(PilotAction::Unstage { task });
            let gathered = self.gathered.entry(task.job).or_default();
            match &kind {
                Some(kind) => {
                    gathered.failures.push(Failure { index: task.index, kind: kind.clone(), usage });
                    self.n_gathered += 1;
                }
                None => {
                    gathered.returned.insert(task.index);
                }
            }
        }
    }
}
