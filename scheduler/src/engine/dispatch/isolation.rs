//! Isolation: runs a task alone on a pilot. As many pilots were lost with the task as the job's `crash_limit`
//! says, but other tasks ran there each time: one of these may be the cause, or all of them together took
//! more memory than the node had. The task therefore gets a pilot to itself. If that pilot is lost too, the
//! task is the cause; otherwise the task ends like any other.

use crate::{
    engine::{
        dispatch::{candidate::has_room_for_templates, capacity::PilotCapacity, elsewhere::Elsewhere},
        live::{
            Live, isolation::holds_any, pilots::pilot_state::PilotState, plan::quota::Entitlement,
            platform::limits,
        },
        state::job::Job,
        turn::Turn,
    },
    ids::{JobId, PilotId},
    pull::Bundle,
    ranges::TaskSet,
};

impl Job {
    /// Returns the open tasks of the job that must run alone.
    pub(in crate::engine) fn to_be_alone(&self) -> TaskSet {
        let alone = self.troubled.iter().filter(|(_, trouble)| trouble.is_to_be_alone);
        alone.map(|(index, _)| *index).filter(|index| self.open.contains(*index)).collect()
    }

    /// Returns the largest number of pilots that were lost, or that ended, with the same open task of the
    /// job.
    pub(in crate::engine) fn n_crash_most(&self) -> u32 {
        let open = self.troubled.iter().filter(|(index, _)| self.open.contains(**index));
        open.map(|(_, trouble)| trouble.n_crash()).max().unwrap_or(0)
    }
}

impl Turn<'_> {
    /// Returns the bundles that isolation gives to a pilot: one isolated task if the pilot holds nothing, and
    /// nothing while it holds an isolated task or is being emptied for one. Returns `None` if the pilot is
    /// served like any other.
    pub(in crate::engine) fn serve_alone(&mut self, id: PilotId) -> Option<Vec<Bundle>> {
        if self.live.alone.is_empty() {
            return None;
        }
        let state = self.live.pilots.get(&id)?;
        if self.live.holds_alone(state) {
            return Some(Vec::new());
        }
        let is_empty = state.leases.is_empty();
        let (job, index) = self.alone_for(id)?;
        if !is_empty {
            return self.is_emptied_for(id, job).then(Vec::new);
        }
        let tasks = TaskSet::from(index..index.saturating_add(1));
        self.live.not_ready(job, &tasks);
        self.lease(id, job, &tasks);
        self.live.note_turn(id, job);
        if let Some(platform) = self.durable.pilots().get(&id).map(|pilot| pilot.platform) {
            self.live.take_quota(platform, job, 1, self.now);
        }
        self.live.empty_nobody_for(job);
        let tried = self.durable.jobs().get(&job).map(|held| held.tried(&tasks)).unwrap_or_default();
        Some(vec![Bundle { job, tried, tasks, is_given: false }])
    }

    /// Returns the first ready task that must run alone and may run on the pilot.
    fn alone_for(&self, id: PilotId) -> Option<(JobId, u64)> {
        let (settings, durable, live) = (self.settings, &*self.durable, &*self.live);
        let state = live.pilots.get(&id)?;
        let offer = PilotCapacity::new(settings, durable, live, self.now, id)?;
        let platform = offer.pilot.platform;
        let elsewhere = Elsewhere { settings, durable, live, now: self.now };
        let of_job = |(job_id, alone): (&JobId, &TaskSet)| {
            let (job, leases) = (durable.jobs().get(job_id)?, live.jobs.get(job_id)?);
            let column = live.plan.quotas.column(platform);
            let is_meant = !matches!(leases.meant(&live.plan.quotas, column, self.now), Entitlement::Nothing);
            if job.is_paused
                || !is_meant
                || leases.profiled_on.is_some()
                || !offer.could_run(job)
                || limits::n_allowed(durable, live, platform, job) == 0
                || !has_room_for_templates(settings, durable, live, id, &[])
            {
                return None;
            }
            let mut ready = alone.intersection(&leases.ready);
            if let Some(revoked) = state.revoked.get(job_id) {
                ready.remove_all(revoked);
            }
            ready.remove_all(&elsewhere.not_for(id, *job_id));
            Some((*job_id, ready.first()?))
        };
        live.alone.iter().find_map(of_job)
    }

    /// Returns whether the pilot, which holds tasks, is being emptied to run a task of the job alone. One
    /// pilot at a time is emptied for a job, and only while no idle pilot can take the task.
    fn is_emptied_for(&mut self, id: PilotId, job: JobId) -> bool {
        let emptied = self.live.emptied.get(&job).copied();
        match emptied.filter(|other| self.takes_tasks(*other)) {
            Some(other) => other == id,
            None => {
                let idle: Vec<PilotId> = self.live.idle.iter().map(|(_, _, idle)| *idle).collect();
                let is_idle_one = idle.into_iter().any(|idle| {
                    self.takes_tasks(idle) && self.alone_for(idle).is_some_and(|(of, _)| of == job)
                });
                if !is_idle_one {
                    self.live.emptied.insert(job, id);
                }
                !is_idle_one
            }
        }
    }
}

impl Live {
    pub(in crate::engine) fn set_alone(&mut self, id: JobId, job: &Job) {
        let alone = job.to_be_alone();
        match alone.is_empty() {
            true => self.clear_alone(id, &TaskSet::from(0..u64::MAX)),
            false => _ = self.alone.insert(id, alone),
        }
    }

    /// Forgets isolated tasks of a job that have ended or were cancelled.
    pub(in crate::engine) fn clear_alone(&mut self, id: JobId, tasks: &TaskSet) {
        let Some(alone) = self.alone.get_mut(&id) else { return };
        alone.remove_all(tasks);
        if alone.is_empty() {
            self.alone.remove(&id);
            self.empty_nobody_for(id);
        }
    }

    /// Returns whether the pilot holds a task that runs alone.
    pub(in crate::engine) fn holds_alone(&self, state: &PilotState) -> bool {
        !self.alone.is_empty() && holds_any(&state.leases, &self.alone)
    }

    /// Stops emptying a pilot for the job; the pilot that was being emptied is served again.
    pub(in crate::engine) fn empty_nobody_for(&mut self, job: JobId) {
        self.pilots_to_notify.extend(self.emptied.remove(&job));
    }

    /// Returns the most tasks of the job that a pilot with room for `n_slots` may hold at a time while it
    /// gets suspects. The number halves for each pilot, except the first, that was lost with the same task:
    /// if all tasks together caused the losses, as when each takes more memory than it requested, fewer of
    /// them at a time succeed.
    pub(in crate::engine) fn most_at_a_time(&self, job: JobId, n_slots: u64) -> u64 {
        let n_crash = self.n_crash_most.get(&job).copied().unwrap_or(0);
        (n_slots >> n_crash.saturating_sub(1).min(63)).max(1)
    }
}
