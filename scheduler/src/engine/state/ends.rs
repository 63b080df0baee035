//! How much the ends of batch jobs count toward `crash_limit`. A task that ran may be why a batch job was ended or its
//! pilot was lost. What else may be why makes the end count less: somebody cancelled the job, or jobs in which other
//! tasks ran were ended at about the same time.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    ids::{AllocationId, PilotId, TaskId},
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
    pub(in crate::engine) n_of_others: u32,
    /// Whether there was one in which such tasks ran.
    pub(in crate::engine) is_any_of_the_same: bool,
}

impl Ends {
    /// Whether tasks are known to have run when the pilot ended.
    pub(in crate::engine) fn has_any(&self, pilot: PilotId) -> bool {
        self.0.iter().any(|end| end.pilot == pilot)
    }

    /// The tasks that ran in an allocation when its pilots ended, each with the pilot.
    pub(in crate::engine) fn ran_in(
        &self,
        allocation: AllocationId,
    ) -> impl Iterator<Item = (PilotId, TaskId)> {
        let here = self.0.iter().filter(move |end| end.allocation == allocation);
        here.flat_map(|end| end.tasks.iter().map(|task| (end.pilot, *task)))
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

    /// The pilot has not ended.
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
