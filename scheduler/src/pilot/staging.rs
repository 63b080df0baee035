//! Files that come before a task begins and go after it has ended. Neither holds a slot: while they are on
//! their way, other tasks run.
//!
//! A task whose files are brought counts as queued: it can be given back. One whose files are delivered has
//! ended and is not reported yet: nobody is told of its success before its files are where they go.

use std::collections::BTreeMap;

use super::{PilotAction, PilotCore, all_of, queue::Next, sets};
use crate::{
    ids::{JobId, TaskId},
    ranges::TaskSet,
    results::{Failure, FailureKind, OutputFile, TaskFiles, TaskOutput, Usage},
};

/// Files are brought for so many tasks a slot: for the one that begins next, and one more, for tasks may be
/// shorter than transfers. More would keep them from pilots that could begin them sooner.
const N_STAGED_PER_SLOT: u64 = 2;

/// A task that has not begun and whose files are here or on their way.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    next: Next,
    /// Whose turn was earlier begins earlier.
    number: u64,
    pub(super) is_here: bool,
}

/// What is known of a task that has succeeded and whose files are on their way.
#[derive(Clone, Debug)]
pub(super) struct Delivering {
    pub(super) code: i32,
    pub(super) usage: Usage,
    pub(super) output: Option<TaskOutput>,
}

/// Whose turn is earlier first.
fn in_order<'a>(staged: impl Iterator<Item = (&'a TaskId, &'a Staged)>) -> Vec<Next> {
    let mut staged: Vec<&Staged> = staged.map(|(_, staged)| staged).collect();
    staged.sort_unstable_by_key(|staged| staged.number);
    staged.into_iter().map(|staged| staged.next).collect()
}

/// Those of a job, as a set.
pub(super) fn of_job(staged: &BTreeMap<TaskId, Staged>, job: JobId) -> TaskSet {
    let tasks = staged.range(all_of(job)).map(|(task, _)| task);
    sets(tasks).remove(&job).unwrap_or_default()
}

/// Whether the files of any of them are here.
pub(super) fn is_any_here(staged: &BTreeMap<TaskId, Staged>, job: JobId) -> bool {
    staged.range(all_of(job)).any(|(_, staged)| staged.is_here)
}

impl PilotCore {
    /// Whether nothing runs, nothing will, and files are still on their way to where they go.
    pub fn is_only_delivering(&self) -> bool {
        let is_idle = self.running.is_empty() && self.ahead.is_empty();
        self.leaving.is_some() && is_idle && !self.delivering.is_empty()
    }

    /// Has files brought for the tasks that begin next.
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

    /// Those of a job whose files are here, in their order.
    pub(super) fn take_staged(&mut self, job: JobId, n: u64) -> Vec<Next> {
        let mut here = in_order(self.staged.range(all_of(job)).filter(|(_, staged)| staged.is_here));
        here.truncate(usize::try_from(n).unwrap_or(usize::MAX));
        for next in &here {
            self.staged.remove(&TaskId { job, index: next.index });
        }
        here
    }

    /// Those of a job whose files are here or on their way, in their order.
    pub(super) fn staged_of(&self, job: JobId) -> Vec<Next> {
        in_order(self.staged.range(all_of(job)))
    }

    /// Files have come, or will not.
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

    /// Files have been delivered, or will not be.
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

    /// Those of the tasks that have not begun and whose files are here or on their way; these are brought no more.
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

    /// What these tasks have left is not waited for, or what any has: they have failed of `kind`, or go back.
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
