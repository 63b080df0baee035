//! The weight with which ends of pilots count toward a task's crash limit.

use crate::{
    engine::{
        record::end_cause::EndCause,
        state::{
            durable::Durable,
            ends::{Alike, N_FOR_ONE_MAX},
            job::{Job, Trouble},
            pilot::Pilot,
        },
    },
    ids::{AllocationId, JobId, PilotId, TaskId},
    results::FailureKind,
    time::Time,
};

/// Number of ends that count as one if the batch system says that somebody cancelled the job: that may be a
/// program of the site that watches memory.
const N_CANCELLED_FOR_ONE: u32 = 4;

/// The weight of one whole end: divisible by 1 to 8.
pub(in crate::engine) const WHOLE: u64 = 840;

impl Durable {
    /// Notes that a pilot was lost, or its batch job was ended, while the task ran.
    pub(in crate::engine) fn note_end_with(&mut self, id: PilotId, task: TaskId, at: Time) {
        let Some(pilot) = self.pilots().get(&id) else { return };
        let (platform, allocation) = (pilot.platform, pilot.allocation);
        let ends = self.ends_mut(platform);
        let alike = ends.alike(allocation, task, at);
        let Some(others) = ends.note((id, allocation), task, at) else { return };
        self.with_pilot(id, |pilot| pilot.alike = alike);
        for (other, is_same) in others {
            self.with_pilot(other, |pilot| match is_same {
                true => pilot.alike.is_any_of_the_same = true,
                false => pilot.alike.n_of_others = pilot.alike.n_of_others.saturating_add(1),
            });
        }
    }

    /// Forgets the end of a pilot that speaks again.
    pub(in crate::engine) fn forget_end(&mut self, id: PilotId) {
        let Some(platform) = self.pilots().get(&id).map(|pilot| pilot.platform) else { return };
        self.ends_mut(platform).forget(id);
        self.with_pilot(id, |pilot| pilot.alike = Alike::default());
    }

    /// Returns the tasks that wait until the cause of an allocation's end is known.
    pub(in crate::engine) fn waiting_to_be_told(&self, allocation: AllocationId, now: Time) -> Vec<TaskId> {
        let Some(held) = self.allocations().get(&allocation) else { return Vec::new() };
        let ran = self.ends_of(held.platform).into_iter().flat_map(|ends| ends.ran_in(allocation));
        let waits = |(pilot, task): &(PilotId, TaskId)| {
            let trouble = self.jobs().get(&task.job).and_then(|job| job.troubled.get(&task.index));
            trouble.is_some_and(|trouble| {
                let is_last = trouble.last == Some(FailureKind::Preempted);
                is_last && trouble.ended_with.last() == Some(pilot) && trouble.retry_at > now
            })
        };
        ran.filter(waits).map(|(_, task)| task).collect()
    }

    /// Returns the weight of the end of a pilot. `is_signalled`: the batch system ended it by a signal that
    /// it reported.
    pub(in crate::engine) fn weight(&self, pilot: &Pilot, alike: Alike, is_signalled: bool, at: Time) -> u64 {
        let cause = self.allocations().get(&pilot.allocation).and_then(|held| held.end_cause);
        let n_for_one = match cause {
            Some(EndCause::Platform) => return 0,
            Some(EndCause::Cancelled) => N_CANCELLED_FOR_ONE,
            None => 1,
        };
        // Lost pilots count fully unless the batch system states a cause: the time at which a loss is noticed
        // says little about the time of the loss.
        if !is_signalled {
            return WHOLE / u64::from(n_for_one);
        }
        let n_innocent = self.ends_for_one(pilot.platform, at) - 1;
        let n_alike = alike.n_of_others.saturating_add(u32::from(alike.is_any_of_the_same));
        let n_for_one = n_for_one.saturating_add(n_innocent).saturating_add(n_alike).min(N_FOR_ONE_MAX);
        WHOLE / u64::from(n_for_one)
    }

    /// Returns the total weight of the ends with which a task ran: lost pilots, and `with_signalled` also
    /// reported ends.
    pub(in crate::engine) fn weight_of_all(&self, trouble: &Trouble, with_signalled: bool, at: Time) -> u64 {
        let of = |ids: &[PilotId], is_signalled| -> u64 {
            let pilots = ids.iter().filter_map(|id| self.pilots().get(id));
            pilots.map(|pilot| self.weight(pilot, pilot.alike, is_signalled, at)).sum()
        };
        let n_signalled = if with_signalled { of(&trouble.ended_with, true) } else { 0 };
        of(&trouble.lost_with, false).saturating_add(n_signalled)
    }
}

impl Durable {
    /// Notes, after a pilot was lost or its batch job was ended with these tasks of a job, which of them have
    /// used up `crash_limit` and are still open because others ran beside them: each must run alone next.
    pub(in crate::engine) fn note_to_be_alone(
        &mut self,
        id: JobId,
        tasks: &[u64],
        with_signalled: bool,
        at: Time,
    ) {
        let Some(job) = self.jobs().get(&id) else { return };
        let limit = limit_of(job);
        let is_due = |index: &u64| {
            let trouble = job.troubled.get(index).filter(|_| job.open.contains(*index));
            trouble.is_some_and(|trouble| self.weight_of_all(trouble, with_signalled, at) >= limit)
        };
        let due: Vec<u64> = tasks.iter().copied().filter(is_due).collect();
        self.set_to_be_alone(id, &due);
    }
}

/// Returns the total weight of ends that uses up a job's `crash_limit`.
pub(in crate::engine) fn limit_of(job: &Job) -> u64 {
    u64::from(job.request.crash_limit).saturating_mul(WHOLE)
}
