//! Checks of blame: the tasks that count as possible causes of a pilot's loss. Rule 3.

use std::collections::BTreeMap;

use scheduler::{
    engine::{
        interface::platform::scaling::Ratio,
        record::{Blamed, FailedAttempt, Verdict},
    },
    ids::{JobId, PilotId, TaskId},
    pull::Bundle,
    ranges::TaskSet,
    resources::Resources,
    results::FailureKind,
    time::Time,
};

use super::{Auditor, End, Violation};

impl Auditor {
    /// Returns whether a walltime ended an attempt that had less than half of the pilot's life: this says
    /// nothing about the task's runtime, and does not count.
    pub(super) fn was_cut_short(&self, pilot: PilotId, failure: &FailedAttempt) -> bool {
        let life = self.lives.get(&pilot);
        failure.kind == FailureKind::Walltime && life.is_none_or(|life| failure.usage.wall_us < life.0 / 2)
    }

    /// Checks the loss of a pilot and the tasks that are blamed for it.
    pub(super) fn pilot_lost(
        &mut self,
        pilot: PilotId,
        blamed: &[Blamed],
        at: Time,
    ) -> Result<(), Violation> {
        self.may_lose(pilot, at)?;
        self.may_blame(pilot, blamed, at)?;
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
                // A task that ran beside others is retried, and runs alone then.
                let n_most = match (blamed.len(), book.crash_limit as usize) {
                    (1, limit) | (_, limit @ 1) => limit,
                    (_, limit) => 2 * limit,
                };
                ensure!(n < n_most, "task {} is tried again after {n} lost pilots", blame.task);
            }
        }
        Ok(())
    }

    /// Notes that a listing left out the batch job of that pilot.
    pub(crate) fn is_unlisted(&mut self, place: &str) {
        if !self.unlisted.contains(place) {
            self.unlisted.insert(place.to_owned());
        }
    }

    /// Rule 3: a lost pilot was silent for long, has come back as another, is dead, or was not listed.
    fn may_lose(&self, pilot: PilotId, at: Time) -> Result<(), Violation> {
        let Some(held) = self.pilots.get(&pilot) else { return Ok(()) };
        let heard = self.heard_before(pilot, at).max(self.manager_started);
        let is_silent = at.since(heard) >= self.budgets.heartbeat_limit;
        let is_back = self.pilot(held) != Some(pilot);
        let is_dead = self.died.contains_key(held);
        let is_unlisted = self.unlisted.contains(held);
        ensure!(
            is_silent || is_back || is_dead || is_unlisted,
            "pilot {pilot} was given up at {at:?}; it was heard at {heard:?}"
        );
        Ok(())
    }

    /// Returns when the pilot was last heard; news of this very moment may have been taken after the loss.
    fn heard_before(&self, pilot: PilotId, at: Time) -> Time {
        let (last, before) = self.heard.get(&pilot).copied().unwrap_or_default();
        if last < at { last } else { before }
    }

    /// Rule 3: only tasks that ran there, or may have begun since the pilot was last heard, may be blamed for
    /// its loss; and of each job no more than it runs at a time.
    fn may_blame(&self, pilot: PilotId, blamed: &[Blamed], at: Time) -> Result<(), Violation> {
        let mut n_of_job = BTreeMap::<JobId, u64>::new();
        let place = self.pilots.get(&pilot).map_or("", String::as_str);
        for task in blamed.iter().map(|blame| blame.task) {
            let of_job = (pilot, task.job);
            let had = self.given.get(&of_job).is_some_and(|tasks| tasks.contains(task.index));
            ensure!(had, "task {task} is blamed for pilot {pilot}, which never got it");
            let Some(book) = self.books.get(&task.job) else { continue };
            ensure!(!book.has_ended(task.index), "task {task} is blamed for pilot {pilot}; it was over");
            let is_new =
                self.given_at.get(&of_job).is_some_and(|given| *given >= self.heard_before(pilot, at));
            let mut executions = self.executions.get(&task).into_iter().flatten();
            let has_run = executions.any(|e| e.place == place);
            ensure!(is_new || has_run, "task {task} is blamed for pilot {pilot}, where it never ran");
            *n_of_job.entry(task.job).or_default() += 1;
            let n_most = book.needs.how_often_in(&self.most_of(pilot));
            ensure!(
                n_of_job[&task.job] <= n_most,
                "more than {n_most} tasks of job {} are blamed for pilot {pilot}, which runs no more",
                task.job
            );
        }
        Ok(())
    }

    /// Returns the largest amount of resources that the pilot's node has ever offered.
    fn most_of(&self, pilot: PilotId) -> Resources {
        let node = self.nodes.get(&pilot).cloned().unwrap_or_default();
        let platform = self.usage.platform_of(pilot);
        let ratio = platform.and_then(|platform| self.ratios.get(&platform)).copied().unwrap_or(Ratio::ONE);
        Resources { cores: ratio.of_cores(node.cores), ..node }
    }

    /// Checks that a task which the next lost pilot would quarantine is not sent together with another blamed
    /// task.
    pub(super) fn is_last_chance_alone(&self, bundles: &[Bundle]) -> Result<(), Violation> {
        let (mut is_any_last, mut suspects) = (false, Vec::new());
        for Bundle { job, tasks, .. } in bundles {
            let limit = self.books.get(job).map_or(0, |book| book.crash_limit as usize);
            for task in tasks.indices().map(|index| TaskId { job: *job, index }) {
                let Some(lost) = self.blamed.get(&task).filter(|lost| !lost.is_empty()) else { continue };
                is_any_last |= lost.len() + 1 >= limit;
                suspects.push(task);
            }
        }
        ensure!(
            !is_any_last || suspects.len() < 2,
            "{suspects:?} are sent together, some at their last chance"
        );
        Ok(())
    }

    /// Checks that a pilot that died does not come back with its tasks.
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

    /// Returns whether the last execution of the task by the pilot, before its loss at `lost`, ended with its
    /// process. A pilot that took its place and has resynced since may have got the task again.
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

    /// Checks that no task is blamed for the loss of a pilot that is there and runs it all the time.
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
