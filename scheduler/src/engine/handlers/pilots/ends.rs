//! Verdicts on tasks whose pilot has ended.

use std::collections::BTreeSet;

use crate::{
    engine::{
        record::Verdict,
        state::{
            allocation::Allocation,
            crashes::{WHOLE, limit_of},
            ends::TOLD_WITHIN,
        },
        turn::Turn,
    },
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
};

/// How a pilot ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) struct EndOfPilot {
    /// Whether the batch system ended it by a signal that the pilot has reported; otherwise it was lost.
    pub(in crate::engine) is_signalled: bool,
    /// Whether the task ran alone there.
    pub(in crate::engine) is_alone: bool,
}

impl Turn<'_> {
    /// Decides whether a task is retried after its pilot was lost, or its batch job was ended, while the task
    /// ran. A task that ran beside others is not quarantined yet: it is tried once more, alone. If it is not
    /// alone then either, it is quarantined after twice as many ends.
    pub(in crate::engine) fn verdict_of_end(&self, id: PilotId, task: TaskId, end: EndOfPilot) -> Verdict {
        let again = Verdict::Retry { at: self.now };
        let EndOfPilot { is_signalled, is_alone } = end;
        if is_signalled && !self.durable.ended_early(id, self.now) {
            return again;
        }
        let now = self.now;
        let Some((platform, allocation)) =
            self.durable.pilots().get(&id).map(|pilot| (pilot.platform, pilot.allocation))
        else {
            return again;
        };
        let alike = self.durable.ends_of(platform).map(|ends| ends.alike(allocation, task, now));
        let (Some(pilot), Some(job)) = (self.durable.pilots().get(&id), self.durable.jobs().get(&task.job))
        else {
            return again;
        };
        let before = job
            .troubled
            .get(&task.index)
            .map_or(0, |trouble| self.durable.weight_of_all(trouble, is_signalled, now));
        let this = self.durable.weight(pilot, alike.unwrap_or_default(), is_signalled, now);
        // A job that allows one lost pilot wants no second one; tasks of profiling runs are never run alone.
        let is_strict = job.request.crash_limit == 1
            || self.live.jobs.get(&task.job).is_some_and(|leases| leases.profiled_on.is_some());
        let n_limits = if is_alone || is_strict { 1 } else { 2 };
        let so_far = before.saturating_add(this);
        if this > 0 && so_far >= limit_of(job).saturating_mul(n_limits) {
            return Verdict::Final;
        }
        let is_untold = || self.durable.allocations().get(&allocation).is_some_and(Allocation::may_be_there);
        let may_be_over_next = so_far.saturating_add(WHOLE) >= limit_of(job);
        match is_signalled && may_be_over_next && is_untold() {
            true => Verdict::Retry { at: now + TOLD_WITHIN },
            false => again,
        }
    }

    /// Returns whether the task was the only one that ran on the pilot when its batch job was ended.
    /// `others`: the tasks that the same report calls ended, too.
    pub(in crate::engine) fn ran_alone(&self, id: PilotId, task: TaskId, others: &BTreeSet<TaskId>) -> bool {
        let platform = self.durable.pilots().get(&id).map(|pilot| pilot.platform);
        let ends = platform.and_then(|platform| self.durable.ends_of(platform));
        let runs_another = self.live.pilots.get(&id).is_some_and(|state| {
            let of_job = |(job, tasks): (&JobId, &TaskSet)| match *job == task.job {
                true => tasks.len() > u64::from(tasks.contains(task.index)),
                false => !tasks.is_empty(),
            };
            state.running.iter().any(of_job)
        });
        !runs_another
            && others.iter().all(|other| *other == task)
            && ends.is_none_or(|ends| ends.is_alone(id, task))
    }
}
