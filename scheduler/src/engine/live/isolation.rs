//! Tasks that one more lost pilot sets aside. No pilot has one of them beside another task that may have taken a pilot
//! down: if it is lost then, that one was not the innocent companion of the one to blame.

use std::collections::BTreeMap;

use crate::{
    engine::{
        live::{Live, pilots::pilot_state::PilotState},
        state::job::Job,
    },
    ids::{JobId, PilotId},
    ranges::TaskSet,
};

/// The worst that a pilot holds.
#[derive(Clone, Copy)]
pub(in crate::engine) enum Troubled {
    LastChance,
    Suspects,
    Nothing,
}

impl Job {
    /// Its open tasks that have taken so many pilots down that one more sets them aside; none where the first does.
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

    /// Tasks of a job have ended or were cancelled.
    pub(in crate::engine) fn clear_last_chances(&mut self, id: JobId, tasks: &TaskSet) {
        self.clear_alone(id, tasks);
        let Some(last) = self.last_chances.get_mut(&id) else { return };
        last.remove_all(tasks);
        if last.is_empty() {
            self.last_chances.remove(&id);
        }
    }

    /// Whether some of a job's tasks may be kept from a pilot for what it holds.
    pub(in crate::engine) fn keeps_apart(&self, job: JobId) -> bool {
        self.has_last_chances(job) || self.alone.contains_key(&job)
    }

    fn has_last_chances(&self, job: JobId) -> bool {
        !self.last_chances.is_empty() && self.suspects.contains_key(&job)
    }

    /// Tasks of a job that the pilot is not to get: those taken from it that it has not answered for, and those that it
    /// would have beside one at its last chance, or that would have their last chance beside suspects.
    pub(in crate::engine) fn not_for(&self, id: PilotId, job: JobId) -> TaskSet {
        self.pilots
            .get(&id)
            .map_or_else(TaskSet::new, |state| self.not_beside(self.troubled(state), state, job))
    }

    /// The same where what the pilot holds is known.
    pub(in crate::engine) fn not_beside(&self, held: Troubled, state: &PilotState, job: JobId) -> TaskSet {
        let mut excluded = state.revoked.get(&job).cloned().unwrap_or_default();
        let is_profiled = self.jobs.get(&job).is_some_and(|leases| leases.profiled_on.is_some());
        if let Some(alone) = self.alone.get(&job).filter(|_| !is_profiled) {
            // They are given out by themselves.
            excluded.insert_all(alone);
        }
        if self.has_last_chances(job) {
            excluded.insert_all(&self.apart_from(held, job, &excluded));
        }
        excluded
    }

    /// What a pilot holds, of all jobs.
    pub(in crate::engine) fn troubled(&self, state: &PilotState) -> Troubled {
        if self.last_chances.is_empty() {
            // Nothing is kept apart: nobody asks.
            return Troubled::Nothing;
        }
        match (holds_any(&state.leases, &self.last_chances), holds_any(&state.leases, &self.suspects)) {
            (true, _) => Troubled::LastChance,
            (false, true) => Troubled::Suspects,
            (false, false) => Troubled::Nothing,
        }
    }

    /// Those at their last chance and suspects that the pilot is not to get beside what it holds of any job; where it
    /// holds none, one at its last chance goes before suspects.
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

/// Whether some of the tasks are held.
pub(in crate::engine) fn holds_any(
    held: &BTreeMap<JobId, TaskSet>,
    tasks: &BTreeMap<JobId, TaskSet>,
) -> bool {
    held.iter().any(|(job, held)| tasks.get(job).is_some_and(|tasks| !tasks.intersection(held).is_empty()))
}
