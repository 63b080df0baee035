//! Tasks that may have taken a pilot down. Who holds many brief ones runs others than it last told when it is lost, so
//! those it held are sent with care: while one of them waits, nobody gets more of the job than it can run at a time, nor
//! does who has one.

use crate::{
    engine::{live::Live, state::job::Job},
    ids::{JobId, PilotId},
    ranges::TaskSet,
};

/// Tasks of a job that a pilot is blamed for at most: more than any node runs at a time.
pub(in crate::engine) const N_SUSPECTS_MAX: u64 = 1 << 16;

impl Live {
    /// After a restart: of what pilots held that were lost before it only that is known which was blamed.
    pub(in crate::engine) fn suspect_blamed(&mut self, id: JobId, job: &Job) {
        let blamed = job.blamed(&job.open);
        if !blamed.is_empty() {
            self.suspects.insert(id, blamed);
        }
    }

    /// Tasks have ended for good or were cancelled.
    pub fn clear_suspects(&mut self, job: JobId, tasks: &TaskSet) {
        let Some(suspects) = self.suspects.get_mut(&job) else { return };
        suspects.remove_all(tasks);
        if suspects.is_empty() {
            self.suspects.remove(&job);
        }
    }

    /// Jobs of which the pilot is to have no more than it can run, in order: suspects are ready, or it has some.
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

    /// Takes so many ready suspects of a job, but none of those excluded.
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
