//! The only code that leases ready tasks to pilots and counts what pilots hold, so that the sums stay right.

use crate::{
    engine::{interface::settings::Settings, live::Live, state::durable::Durable},
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
};

impl Live {
    /// Leases tasks to a pilot. They must no longer be in the ready set. Tasks that the pilot already holds
    /// count once.
    pub fn lease(
        &mut self,
        settings: &Settings,
        durable: &Durable,
        pilot: PilotId,
        job: JobId,
        tasks: &TaskSet,
    ) {
        let Some(request) = durable.jobs().get(&job).map(|job| &job.request) else { return };
        if tasks.is_empty() {
            return;
        }
        let leased = self.with_pilot(pilot, |state| {
            let held = state.leases.entry(job).or_default();
            let n_before = held.len();
            held.insert_all(tasks);
            let n_new = held.len() - n_before;
            state.used.give_back(&request.needs.resources, n_new);
            n_new
        });
        let Some(n_new) = leased else { return };
        self.set_idle(durable, pilot, None);
        self.is_new_no_more(job);
        if let Some(leases) = self.jobs.get_mut(&job) {
            leases.n_leased += n_new;
            leases.holders.insert(pilot);
        }
        self.note_held_on(durable, pilot, job, |held| held + n_new);
        self.recount(settings, durable, job);
    }

    pub(in crate::engine) fn note_held_on(
        &mut self,
        durable: &Durable,
        pilot: PilotId,
        job: JobId,
        change: impl FnOnce(u64) -> u64,
    ) {
        let Some(platform) = durable.pilots().get(&pilot).map(|pilot| pilot.platform) else { return };
        let held = change(self.held_on.get(&(platform, job)).copied().unwrap_or(0));
        match held {
            0 => self.held_on.remove(&(platform, job)),
            _ => self.held_on.insert((platform, job), held),
        };
    }

    /// Recounts the cores that a job and its user hold, after the job's leases, running tasks or mean runtime
    /// have changed.
    pub fn recount(&mut self, settings: &Settings, durable: &Durable, id: JobId) {
        let (Some(leases), Some(job)) = (self.jobs.get_mut(&id), durable.jobs().get(&id)) else { return };
        let n_slots = leases.n_slots(job.depth(settings));
        let after = n_slots.saturating_mul(u64::from(job.request.needs.resources.cores));
        let before = std::mem::replace(&mut leases.held_cores, after);
        if before == after {
            return;
        }
        let user = &job.request.user;
        let others = self.user_cores.get(user).map_or(0, |held| held.saturating_sub(before));
        match others.saturating_add(after) {
            0 => _ = self.user_cores.remove(user),
            held => match self.user_cores.get_mut(user) {
                Some(known) => *known = held,
                None => _ = self.user_cores.insert(user.clone(), held),
            },
        }
    }

    /// Returns the number of cores that a user's jobs hold.
    pub fn cores_of(&self, user: &str) -> u64 {
        self.user_cores.get(user).copied().unwrap_or(0)
    }

    /// Returns the tasks of a job that each pilot holds.
    pub fn held(&self, job: JobId) -> Vec<(PilotId, TaskSet)> {
        let holders = self.jobs.get(&job).into_iter().flat_map(|leases| &leases.holders);
        holders.filter_map(|id| Some((*id, self.pilots.get(id)?.leases.get(&job)?.clone()))).collect()
    }

    /// Returns up to `n_max` pilots that hold any of a job's tasks, or any of `tasks`.
    pub fn holders(&self, job: JobId, tasks: Option<&TaskSet>, n_max: usize) -> Vec<PilotId> {
        let holders = self.jobs.get(&job).into_iter().flat_map(|leases| &leases.holders).copied();
        let is_meant = |id: &PilotId| {
            let held = self.pilots.get(id).and_then(|pilot| pilot.leases.get(&job));
            held.is_some_and(|held| tasks.is_none_or(|tasks| !tasks.intersection(held).is_empty()))
        };
        holders.filter(is_meant).take(n_max).collect()
    }

    /// Returns the pilot that holds a task.
    pub fn holder(&self, task: TaskId) -> Option<PilotId> {
        let mut holders = self.jobs.get(&task.job)?.holders.iter().copied();
        holders.find(|id| self.pilots.get(id).is_some_and(|pilot| pilot.holds(task)))
    }
}
