//! Tasks that one more lost pilot sets aside. No pilot has two of them: those that are blamed together for one of them
//! would be sent together again, and all set aside.

use std::collections::BTreeMap;

use super::{Turn, durable::Job, volatile::Volatile};
use crate::{
    ids::{JobId, PilotId},
    ranges::TaskSet,
};

impl Job {
    /// Its open tasks that have taken so many pilots down that one more sets them aside; none where the first does.
    pub(super) fn last_chances(&self) -> TaskSet {
        let limit = self.request.crash_limit;
        let is_last = |n_crash: u32| n_crash > 0 && n_crash.saturating_add(1) >= limit;
        let of_last = self.troubled.iter().filter(|(_, trouble)| is_last(trouble.n_crash()));
        of_last.map(|(index, _)| *index).filter(|index| self.open.contains(*index)).collect()
    }
}

impl Turn<'_> {
    /// A job's tasks have been blamed for a lost pilot, or are no more.
    pub(super) fn note_last_chances(&mut self, id: JobId) {
        if let Some(job) = self.durable.jobs().get(&id) {
            self.volatile.set_last_chances(id, job);
        }
    }
}

impl Volatile {
    pub(super) fn set_last_chances(&mut self, id: JobId, job: &Job) {
        let last = job.last_chances();
        match last.is_empty() {
            true => self.last_chances.remove(&id),
            false => self.last_chances.insert(id, last),
        };
    }

    /// Tasks of a job have ended or were cancelled.
    pub(super) fn clear_last_chances(&mut self, id: JobId, tasks: &TaskSet) {
        let Some(last) = self.last_chances.get_mut(&id) else { return };
        last.remove_all(tasks);
        if last.is_empty() {
            self.last_chances.remove(&id);
        }
    }

    /// Tasks of a job that the pilot is not to get: those taken from it that it has not answered for, and those of which
    /// it has one already, or would have two.
    pub(super) fn not_for(&self, id: PilotId, job: JobId) -> TaskSet {
        let state = self.pilots.get(&id);
        let mut excluded = state.and_then(|state| state.revoked.get(&job)).cloned().unwrap_or_default();
        let Some((mut last, state)) = self.last_chances.get(&job).cloned().zip(state) else {
            return excluded;
        };
        if !holds_any(&state.leases, &self.last_chances) {
            let ready =
                self.jobs.get(&job).map(|leases| last.intersection(&leases.ready)).unwrap_or_default();
            let first = ready.indices().find(|index| !excluded.contains(*index));
            first.inspect(|index| _ = last.remove(*index));
        }
        excluded.insert_all(&last);
        excluded
    }
}

fn holds_any(held: &BTreeMap<JobId, TaskSet>, last_chances: &BTreeMap<JobId, TaskSet>) -> bool {
    let last_of = |job| last_chances.get(job);
    held.iter().any(|(job, held)| last_of(job).is_some_and(|last| !last.intersection(held).is_empty()))
}
