//! Which tasks count as ones that a pilot was lost with. Rule 3.

use scheduler::{
    engine::record::{Blamed, FailedAttempt, Verdict},
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
    results::FailureKind,
    time::Time,
};

use super::{Auditor, End, Violation};

impl Auditor {
    /// Whether a walltime ended an attempt that had less than half of the pilot's life: that says nothing of how long
    /// the task takes, and does not count.
    pub(super) fn was_cut_short(&self, pilot: PilotId, failure: &FailedAttempt) -> bool {
        let life = self.lives.get(&pilot);
        failure.kind == FailureKind::Walltime && life.is_none_or(|life| failure.usage.wall_us < life.0 / 2)
    }

    /// A pilot is given up, and these tasks may be why.
    pub(super) fn pilot_lost(
        &mut self,
        pilot: PilotId,
        blamed: &[Blamed],
        at: Time,
    ) -> Result<(), Violation> {
        self.may_lose(pilot, blamed, at)?;
        self.lost.insert(pilot);
        self.pilot_gone(pilot, at);
        for blame in blamed {
            let lost = self.blamed.entry(blame.task).or_default();
            lost.push((pilot, at));
            let n = lost.len();
            self.failed_once(blame.task, blame.attempt)?;
            if blame.verdict == Verdict::Final {
                self.failed(blame.task, &FailureKind::PilotLost)?;
            } else if let Some(book) = self.books.get(&blame.task.job) {
                ensure!(
                    n < book.crash_limit as usize,
                    "task {} is tried again after {n} lost pilots",
                    blame.task
                );
            }
        }
        Ok(())
    }

    /// A pilot that died does not come back with its tasks.
    pub(super) fn blame_taken_back(
        &mut self,
        pilot: PilotId,
        tasks: &[(JobId, TaskSet)],
    ) -> Result<(), Violation> {
        for (job, tasks) in tasks {
            for task in tasks.indices().map(|index| TaskId { job: *job, index }) {
                let lost = self.blamed.entry(task).or_default();
                let last = lost.iter().filter(|(other, _)| *other == pilot).map(|(_, at)| *at).max();
                lost.retain(|(other, _)| *other != pilot);
                let Some(last) = last else {
                    let what = format!("task {task} was not blamed for the loss of pilot {pilot}");
                    return Err(Violation(what));
                };
                ensure!(
                    !self.died_with(task, pilot, last),
                    "task {task} died with pilot {pilot}, and is not blamed for it any more"
                );
            }
        }
        Ok(())
    }

    /// Whether the last execution of the task by the pilot, before it was given up then, ended with its process. One
    /// that came in the place of that, and has told since what it holds, may have got the task again.
    fn died_with(&self, task: TaskId, pilot: PilotId, lost: Time) -> bool {
        let place = self.pilots.get(&pilot).map_or("", String::as_str);
        let executions = self.executions.get(&task).into_iter().flatten();
        let last = executions.rev().find(|e| e.place == place && e.given <= lost);
        let Some((at, End::Killed)) = last.and_then(|last| last.end.clone()) else { return false };
        let since = [self.registered.get(&pilot), self.back_in_step.get(&pilot)];
        let is_of_before = since.into_iter().flatten().any(|since| *since > at);
        let is_death = self.died.get(place).is_some_and(|times| times.contains(&at));
        at <= lost && !is_of_before && is_death
    }

    /// No task is blamed for the loss of a pilot that is there and runs it all the while.
    pub(super) fn is_not_blamed(&self, pilot: PilotId) -> Result<(), Violation> {
        let place = self.pilots.get(&pilot).map_or("", String::as_str);
        for (task, lost) in &self.blamed {
            let Some((_, at)) = lost.iter().rev().find(|(other, _)| *other == pilot) else { continue };
            let mut executions = self.executions.get(task).into_iter().flatten();
            let is_open = self.books.get(&task.job).is_some_and(|book| !book.has_ended(task.index));
            let runs = executions.any(|e| e.place == place && e.given <= *at && e.end.is_none());
            ensure!(!(runs && is_open), "task {task} is blamed for the loss of pilot {pilot}, which runs it");
        }
        Ok(())
    }
}
