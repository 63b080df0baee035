//! The ends of batch jobs that may have been caused by a task that ran. Such an end counts less toward
//! `crash_limit` if there may be another cause: somebody cancelled the job, or jobs with other tasks were
//! ended at about the same time.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    ids::{AllocationId, PilotId, TaskId},
    time::{Span, Time},
};

/// The time within which ends of batch jobs may have one cause.
const ALIKE: Span = Span::from_secs(60);

/// The same for batch jobs in which tasks of the same job ran.
const ALIKE_OF_A_JOB: Span = Span::from_secs(5);

/// Number of the last ends on a platform that are compared.
const N_COMPARED: usize = 64;

/// The most ends that count as one.
pub(in crate::engine) const N_FOR_ONE_MAX: u32 = 8;

/// The time for which a task that one more end quarantines waits for the platform to state why the last batch
/// job ended. Without a stated cause, the end counts fully.
pub(in crate::engine) const TOLD_WITHIN: Span = Span::from_secs(60);

/// A pilot that was lost, or whose batch job was ended, while tasks ran.
#[derive(Clone, PartialEq, Debug)]
struct End {
    pilot: PilotId,
    allocation: AllocationId,
    at: Time,
    /// The tasks that ran.
    tasks: BTreeSet<TaskId>,
}

impl End {
    /// Returns the time between this end and another one, with which the task ran, within which both may have
    /// the same cause, and whether tasks of the same job ran here; `None`: the task itself ran here, too.
    fn limit(&self, task: TaskId) -> Option<(Span, bool)> {
        let is_same = self.tasks.iter().any(|other| other.job == task.job);
        let limit = if is_same { ALIKE_OF_A_JOB } else { ALIKE };
        (!self.tasks.contains(&task)).then_some((limit, is_same))
    }
}

/// The last ends on a platform.
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::engine) struct Ends(VecDeque<End>);

/// The ends of other batch jobs that may have the same cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Alike {
    /// Number of ends with no task of the same jobs.
    pub(in crate::engine) n_of_others: u32,
    /// Whether there was an end with tasks of the same jobs.
    pub(in crate::engine) is_any_of_the_same: bool,
}

impl Ends {
    /// Returns whether tasks are known to have run when the pilot ended.
    pub(in crate::engine) fn has_any(&self, pilot: PilotId) -> bool {
        self.0.iter().any(|end| end.pilot == pilot)
    }

    /// Returns the tasks that ran in an allocation when its pilots ended, each with the pilot.
    pub(in crate::engine) fn ran_in(
        &self,
        allocation: AllocationId,
    ) -> impl Iterator<Item = (PilotId, TaskId)> {
        let here = self.0.iter().filter(move |end| end.allocation == allocation);
        here.flat_map(|end| end.tasks.iter().map(|task| (end.pilot, *task)))
    }

    /// Returns whether no other task is known to have run when the pilot ended.
    pub(in crate::engine) fn is_alone(&self, pilot: PilotId, task: TaskId) -> bool {
        let of_pilot = self.0.iter().filter(|end| end.pilot == pilot);
        of_pilot.flat_map(|end| &end.tasks).all(|other| *other == task)
    }

    /// Returns the ends at about that time that may have the same cause as the end of a batch job in which
    /// the task ran.
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

    /// Notes that the task ran when the pilot ended. Returns the pilots of earlier ends that may have the
    /// same cause, each with whether tasks of the same job ran there; `None` if the end is known.
    pub(in crate::engine) fn note(
        &mut self,
        new: (PilotId, AllocationId),
        task: TaskId,
        at: Time,
    ) -> Option<Vec<(PilotId, bool)>> {
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

    /// Forgets the end of a pilot that has not ended after all.
    pub(in crate::engine) fn forget(&mut self, pilot: PilotId) {
        self.0.retain(|end| end.pilot != pilot);
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::record::end_cause::EndCause;

    #[test]
    fn words_of_batch_systems_say_who_ended_a_job() {
        assert_eq!(EndCause::of("CANCELLED by 0"), Some(EndCause::Cancelled));
        assert_eq!(EndCause::of("PREEMPTED"), Some(EndCause::Platform));
        for words in ["OUT_OF_MEMORY", "NODE_FAIL", "FAILED", "COMPLETED", ""] {
            assert_eq!(EndCause::of(words), None, "{words}");
        }
    }
}
