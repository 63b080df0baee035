//! Last chances: tasks that one more lost pilot quarantines. No pilot holds one of them beside another task
//! that may have caused the loss of a pilot: if the pilot is lost then, the cause is known.

use std::collections::BTreeMap;

use crate::{
    engine::{
        live::{Live, pilots::pilot_state::PilotState},
        state::job::Job,
    },
    ids::{JobId, PilotId},
    ranges::TaskSet,
};

/// The most suspicious kind of task that a pilot holds.
#[derive(Clone, Copy)]
pub(in crate::engine) enum Troubled {
    LastChance,
    Suspects,
    Nothing,
}

impl Job {
    /// Returns the open tasks that one more lost pilot quarantines, after earlier losses. With a crash limit
    /// of one there are none: the first loss quarantines.
    pub(in crate::engine) fn last_chances(&self) -> TaskSet {
        let limit = self.request.crash_limit;
        let is_last = |n_crash: u32| n_crash > 0 && n_crash.saturating_add(1) >= limit;
        let of_last = self.troubled.iter().filter(|(_, trouble)| is_last(trouble.n_crash()));
        of_last.map(|(index, _)| *index).filter(|index| self.open.contains(*index)).collect()
    }
}

impl Live {
    pub(in crate::engine) fn set_last_chances(&mut self, id: JobId, job: &Job) {
        self.set_alone(id, job);
        match job.n_crash_most() {
            0 => self.n_crash_most.remove(&id),
            n_crash => self.n_crash_most.insert(id, n_crash),
        };
        let last = job.last_chances();
        match last.is_empty() {
            true => self.last_chances.remove(&id),
            false => self.last_chances.insert(id, last),
        };
    }

    /// Removes tasks of a job that have ended or were cancelled.
    pub(in crate::engine) fn clear_last_chances(&mut self, id: JobId, tasks: &TaskSet) {
        self.clear_alone(id, tasks);
        let Some(last) = self.last_chances.get_mut(&id) else { return };
        last.remove_all(tasks);
        if last.is_empty() {
            self.last_chances.remove(&id);
        }
    }

    /// Returns whether some of a job's tasks may be withheld from a pilot because of the tasks that it holds.
    pub(in crate::engine) fn keeps_apart(&self, job: JobId) -> bool {
        self.has_last_chances(job) || self.alone.contains_key(&job)
    }

    fn has_last_chances(&self, job: JobId) -> bool {
        !self.last_chances.is_empty() && self.suspects.contains_key(&job)
    }

    /// Returns the tasks of a job that the pilot must not get: revoked tasks that it has not answered for,
    /// tasks that must run alone, tasks that must not run beside a last chance that it holds, and last
    /// chances beside its suspects.
    pub(in crate::engine) fn not_for(&self, id: PilotId, job: JobId) -> TaskSet {
        self.pilots
            .get(&id)
            .map_or_else(TaskSet::new, |state| self.not_beside(self.troubled(state), state, job))
    }

    /// Like [`Live::not_for`], for a pilot whose most suspicious kind of task is known.
    pub(in crate::engine) fn not_beside(&self, held: Troubled, state: &PilotState, job: JobId) -> TaskSet {
        let mut excluded = state.revoked.get(&job).cloned().unwrap_or_default();
        let is_profiled = self.jobs.get(&job).is_some_and(|leases| leases.profiled_on.is_some());
        if let Some(alone) = self.alone.get(&job).filter(|_| !is_profiled) {
            // Dispatch leases them separately.
            excluded.insert_all(alone);
        }
        if self.has_last_chances(job) {
            excluded.insert_all(&self.apart_from(held, job, &excluded));
        }
        excluded
    }

    /// Returns the most suspicious kind of task that a pilot holds, of all jobs.
    pub(in crate::engine) fn troubled(&self, state: &PilotState) -> Troubled {
        if self.last_chances.is_empty() {
            // Nothing is withheld, so the answer does not matter.
            return Troubled::Nothing;
        }
        match (holds_any(&state.leases, &self.last_chances), holds_any(&state.leases, &self.suspects)) {
            (true, _) => Troubled::LastChance,
            (false, true) => Troubled::Suspects,
            (false, false) => Troubled::Nothing,
        }
    }

    /// Returns the last chances and suspects of the job that the pilot must not get beside the tasks that it
    /// holds, of any job. If it holds neither, the first ready last chance goes before the suspects.
    fn apart_from(&self, held: Troubled, job: JobId, excluded: &TaskSet) -> TaskSet {
        let last = self.last_chances.get(&job).cloned().unwrap_or_default();
        let mut all = self.suspects.get(&job).cloned().unwrap_or_default();
        match held {
            Troubled::LastChance => return all,
            Troubled::Suspects => return last,
            Troubled::Nothing => {}
        }
        let mut ready =
            self.jobs.get(&job).map(|leases| last.intersection(&leases.ready)).unwrap_or_default();
        ready.remove_all(excluded);
        match ready.first() {
            Some(first) => _ = all.remove(first),
            None => return last,
        }
        all
    }
}

/// Returns whether any of the tasks is held.
pub(in crate::engine) fn holds_any(
    held: &BTreeMap<JobId, TaskSet>,
    tasks: &BTreeMap<JobId, TaskSet>,
) -> bool {
    held.iter().any(|(job, held)| tasks.get(job).is_some_and(|tasks| !tasks.intersection(held).is_empty()))
}
