//! Suspects: tasks that may have caused the loss of a pilot. A pilot with many short tasks may run other
//! tasks than it last reported, so all tasks that it held are suspects. While a suspect is ready, no pilot
//! gets more tasks of the job than it can run at a time, and neither does a pilot that holds a suspect.

use crate::{
    engine::{live::Live, state::job::Job},
    ids::{JobId, PilotId},
    ranges::TaskSet,
};

/// The most tasks of a job for which one pilot's loss is blamed: more than any node runs at a time.
pub(in crate::engine) const N_SUSPECTS_MAX: u64 = 1 << 16;

impl Live {
    /// Makes the blamed tasks of a job suspects after a restart. Of the tasks that pilots held when they were
    /// lost before it, only the blamed ones are recorded.
    pub(in crate::engine) fn suspect_blamed(&mut self, id: JobId, job: &Job) {
        let blamed = job.blamed(&job.open);
        if !blamed.is_empty() {
            self.suspects.insert(id, blamed);
        }
    }

    /// Removes tasks that have ended for good or were cancelled from the suspects.
    pub fn clear_suspects(&mut self, job: JobId, tasks: &TaskSet) {
        let Some(suspects) = self.suspects.get_mut(&job) else { return };
        suspects.remove_all(tasks);
        if suspects.is_empty() {
            self.suspects.remove(&job);
        }
    }

    /// Returns the jobs, in order, of which the pilot may get no more tasks than it can run: suspects of the
    /// job are ready, or the pilot holds some.
    pub(in crate::engine) fn careful_with(&self, id: PilotId) -> Vec<JobId> {
        let held = |job| self.pilots.get(&id).and_then(|state| state.leases.get(job));
        let ready = |job| self.jobs.get(job).map(|leases| &leases.ready);
        let is_any_of = |suspects: &TaskSet, tasks: Option<&TaskSet>| {
            tasks.is_some_and(|tasks| !suspects.intersection(tasks).is_empty())
        };
        let careful = self.suspects.iter();
        let careful = careful.filter(|(job, all)| is_any_of(all, ready(job)) || is_any_of(all, held(job)));
        careful.map(|(job, _)| *job).collect()
    }

    /// Takes up to `n` ready suspects of a job, without the excluded tasks.
    pub fn take_suspects(&mut self, job: JobId, n: u64, excluded: &TaskSet) -> TaskSet {
        let suspects = self.suspects.get(&job).zip(self.jobs.get(&job));
        let Some((suspects, leases)) = suspects else { return TaskSet::new() };
        let mut ready = suspects.intersection(&leases.ready);
        ready.remove_all(excluded);
        let taken = ready.take_first(n);
        self.not_ready(job, &taken);
        taken
    }
}
