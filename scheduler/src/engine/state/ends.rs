//! How much the ends of batch jobs count toward `crash_limit`. A task that ran may be why a batch job was ended or its
//! pilot was lost. What else may be why makes the end count less: somebody cancelled the job, or jobs in which other
//! tasks ran were ended at about the same time.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    engine::{
        record::ends::EndCause,
        state::{
            durable::{Durable, Pilot},
            job::{Job, Trouble},
        },
    },
    ids::{AllocationId, JobId, PilotId, TaskId},
    results::FailureKind,
    time::{Span, Time},
};

/// Ends of batch jobs within this time may have one cause.
const ALIKE: Span = Span::from_secs(60);

/// … and those in which tasks of the same job ran, within this time.
const ALIKE_OF_A_JOB: Span = Span::from_secs(5);

/// So many of the last ends on a platform are compared.
const N_COMPARED: usize = 64;

/// At most so many ends count as one.
pub(in crate::engine) const N_FOR_ONE_MAX: u32 = 8;

/// So many ends count as one if the batch system says that somebody cancelled the job: that may be a program of the
/// site that watches memory.
const N_CANCELLED_FOR_ONE: u32 = 4;

/// What one end counts: divisible by 1 to 8.
pub(in crate::engine) const WHOLE: u64 = 840;

/// A task that one more end may set aside waits at most for so long until its platform has said why the last batch job
/// ended: what is not told counts in full.
pub(in crate::engine) const TOLD_WITHIN: Span = Span::from_secs(60);

/// A pilot that was lost, or whose batch job was ended, while tasks ran.
#[derive(Clone, PartialEq, Debug)]
struct End {
    pilot: PilotId,
    allocation: AllocationId,
    at: Time,
    /// What ran.
    tasks: BTreeSet<TaskId>,
}

impl End {
    /// How soon before or after another end, with which the task ran, this one may have the same cause, and whether
    /// tasks of the same job ran here; `None`: the task itself ran here, too.
    fn limit(&self, task: TaskId) -> Option<(Span, bool)> {
        let is_same = self.tasks.iter().any(|other| other.job == task.job);
        let limit = if is_same { ALIKE_OF_A_JOB } else { ALIKE };
        (!self.tasks.contains(&task)).then_some((limit, is_same))
    }
}

/// The last ends on a platform.
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::engine) struct Ends(VecDeque<End>);

/// How many ends of other batch jobs may have the same cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Alike {
    /// Those in which no task of the same jobs ran.
    n_of_others: u32,
    /// Whether there was one in which such tasks ran.
    is_any_of_the_same: bool,
}

impl Ends {
    /// Whether tasks are known to have run when the pilot ended.
    pub(in crate::engine) fn has_any(&self, pilot: PilotId) -> bool {
        self.0.iter().any(|end| end.pilot == pilot)
    }

    /// Whether no other task is known to have run when the pilot ended.
    pub(in crate::engine) fn is_alone(&self, pilot: PilotId, task: TaskId) -> bool {
        let of_pilot = self.0.iter().filter(|end| end.pilot == pilot);
        of_pilot.flat_map(|end| &end.tasks).all(|other| *other == task)
    }

    /// Those at about that time that may have the same cause as the end of a batch job in which the task ran.
    pub(in crate::engine) fn alike(&self, allocation: AllocationId, task: TaskId, at: Time) -> Alike {
        let mut alike = Alike::default();
        let mut seen = vec![allocation];
        for end in &self.0 {
            let apart = at.since(end.at).max(end.at.since(at));
            let Some((_, is_same)) = end.limit(task).filter(|(limit, _)| apart <= *limit) else { continue };
            if seen.contains(&end.allocation) {
                continue;
            }
            seen.push(end.allocation);
            match is_same {
                true => alike.is_any_of_the_same = true,
                false => alike.n_of_others = alike.n_of_others.saturating_add(1),
            }
        }
        alike
    }

    /// Notes that the task ran when the pilot ended. Gives the pilots of the ends that were noted before and may
    /// have the same cause, each with whether tasks of the same job ran there; nothing if the end is known.
    fn note(&mut self, new: (PilotId, AllocationId), task: TaskId, at: Time) -> Option<Vec<(PilotId, bool)>> {
        let (pilot, allocation) = new;
        if let Some(known) = self.0.iter_mut().find(|end| end.pilot == pilot) {
            known.tasks.insert(task);
            return None;
        }
        let others = self.0.iter().filter(|end| end.allocation != allocation);
        let alike = others.filter_map(|end| {
            let (limit, is_same) = end.limit(task)?;
            (at.since(end.at) <= limit).then_some((end.pilot, is_same))
        });
        let alike = alike.collect();
        self.0.push_back(End { pilot, allocation, at, tasks: BTreeSet::from([task]) });
        if self.0.len() > N_COMPARED {
            self.0.pop_front();
        }
        Some(alike)
    }

    /// The pilot has not ended.
    fn forget(&mut self, pilot: PilotId) {
        self.0.retain(|end| end.pilot != pilot);
    }
}

impl Durable {
    /// A pilot was lost, or its batch job was ended, while the task ran.
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

    /// The pilot speaks again.
    pub(in crate::engine) fn forget_end(&mut self, id: PilotId) {
        let Some(platform) = self.pilots().get(&id).map(|pilot| pilot.platform) else { return };
        self.ends_mut(platform).forget(id);
        self.with_pilot(id, |pilot| pilot.alike = Alike::default());
    }

    /// The tasks that wait until it is known why an allocation ended.
    pub(in crate::engine) fn waiting_to_be_told(&self, allocation: AllocationId, now: Time) -> Vec<TaskId> {
        let Some(held) = self.allocations().get(&allocation) else { return Vec::new() };
        let ends = self.ends_of(held.platform).into_iter().flat_map(|ends| &ends.0);
        let here = ends.filter(|end| end.allocation == allocation);
        let ran = here.flat_map(|end| end.tasks.iter().map(|task| (end.pilot, *task)));
        let waits = |(pilot, task): &(PilotId, TaskId)| {
            let trouble = self.jobs().get(&task.job).and_then(|job| job.troubled.get(&task.index));
            trouble.is_some_and(|trouble| {
                let is_last = trouble.last == Some(FailureKind::Preempted);
                is_last && trouble.ended_with.last() == Some(pilot) && trouble.retry_at > now
            })
        };
        ran.filter(waits).map(|(_, task)| task).collect()
    }

    /// What the end of a pilot counts. `is_signalled`: the batch system ended it by a signal that it has told of.
    pub(in crate::engine) fn weight(&self, pilot: &Pilot, alike: Alike, is_signalled: bool, at: Time) -> u64 {
        let cause = self.allocations().get(&pilot.allocation).and_then(|held| held.end_cause);
        let n_for_one = match cause {
            Some(EndCause::Platform) => return 0,
            Some(EndCause::Cancelled) => N_CANCELLED_FOR_ONE,
            None => 1,
        };
        // Lost pilots count one each unless the batch system says otherwise: when they are noticed says little of when
        // they were lost.
        if !is_signalled {
            return WHOLE / u64::from(n_for_one);
        }
        let n_innocent = self.ends_for_one(pilot.platform, at) - 1;
        let n_alike = alike.n_of_others.saturating_add(u32::from(alike.is_any_of_the_same));
        let n_for_one = n_for_one.saturating_add(n_innocent).saturating_add(n_alike).min(N_FOR_ONE_MAX);
        WHOLE / u64::from(n_for_one)
    }

    /// What the ends count together with which a task ran: lost pilots, and `with_signalled` those that were told of.
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
    /// After a pilot was lost, or its batch job was ended, with these tasks of a job: notes which of them have used up
    /// `crash_limit` and are open still, as others ran beside them: each is to run alone next.
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

/// What the ends count together that use up a job's `crash_limit`.
pub(in crate::engine) fn limit_of(job: &Job) -> u64 {
    u64::from(job.request.crash_limit).saturating_mul(WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_batch_systems_say_who_ended_a_job() {
        assert_eq!(EndCause::of("CANCELLED by 0"), Some(EndCause::Cancelled));
        assert_eq!(EndCause::of("PREEMPTED"), Some(EndCause::Platform));
        for words in ["OUT_OF_MEMORY", "NODE_FAIL", "FAILED", "COMPLETED", ""] {
            assert_eq!(EndCause::of(words), None, "{words}");
        }
    }
}
