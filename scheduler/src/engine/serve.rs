//! Serving a pilot: which job (matching), how many of its tasks (bundling), what fits it.

use std::collections::BTreeMap;

use super::{
    Turn,
    durable::{Durable, Job, Pilot},
    settings::Settings,
    volatile::{PilotState, Volatile},
};
use crate::{
    ids::{JobId, PilotId},
    policy::{bundling::Situation, matching::Candidate},
    pull::Bundle,
    ranges::TaskSet,
    resources::Resources,
    time::{Span, Time},
};

/// Bundles of different jobs in one answer at most; a pilot that wants more pulls again.
const N_BUNDLES_MAX: usize = 16;

impl Turn<'_> {
    /// Leases tasks to a pilot until it has enough, or nothing is left that fits.
    pub(super) fn fill(&mut self, id: PilotId) -> Vec<Bundle> {
        let mut bundles = Vec::new();
        if !self.takes_tasks(id) {
            return bundles;
        }
        while bundles.len() < N_BUNDLES_MAX && self.has_room_for_templates(id, &bundles) {
            let Some((job, n)) = self.choose(id) else { break };
            let revoked = self.volatile.pilots.get(&id).and_then(|state| state.revoked.get(&job)).cloned();
            let Some(leases) = self.volatile.jobs.get_mut(&job) else { break };
            let tasks = take_ready(&mut leases.ready, revoked.as_ref(), n);
            self.volatile.n_served += 1;
            leases.last_served = self.volatile.n_served;
            self.lease(id, job, &tasks);
            let tried = self.durable.jobs().get(&job).map_or_else(Vec::new, |job| job.tried(&tasks));
            bundles.push(Bundle { job, tasks, tried });
        }
        bundles
    }

    /// Whether the pilot's next answer may still grow: the templates that it carries, of parts not yet
    /// confirmed and of these bundles, are below their limit.
    fn has_room_for_templates(&self, id: PilotId, bundles: &[Bundle]) -> bool {
        let Some(state) = self.volatile.pilots.get(&id) else { return false };
        let spec_bytes = |job: &JobId| self.durable.jobs().get(job).map_or(0, |job| job.request.spec.len());
        let unconfirmed = state.unconfirmed.iter().flat_map(|part| &part.templates);
        let new = bundles.iter().map(|bundle| &bundle.job).filter(|job| !state.templates.contains(job));
        let n_bytes: usize = unconfirmed.map(|t| t.spec.len()).chain(new.map(spec_bytes)).sum();
        n_bytes < self.settings.template_bytes_max
    }

    fn takes_tasks(&self, id: PilotId) -> bool {
        let is_draining = self.durable.pilots().get(&id).is_none_or(|pilot| pilot.drain.is_some());
        let is_willing =
            self.volatile.pilots.get(&id).is_some_and(|pilot| pilot.is_hungry && pilot.is_synced);
        is_willing && !is_draining && self.volatile.shutdown.is_none() && !self.volatile.is_in_grace()
    }

    /// The job to serve the pilot with and the size of the bundle.
    fn choose(&self, id: PilotId) -> Option<(JobId, u64)> {
        let view = Offer::new(self.settings, self.durable, self.volatile, self.now, id)?;
        let users = user_cores(self.durable, self.volatile);
        let mut candidates = Vec::new();
        let mut sizes = Vec::new();
        for (job_id, leases) in &self.volatile.jobs {
            let Some(job) = self.durable.jobs().get(job_id) else { continue };
            if leases.ready.is_empty() || job.is_paused || !view.outlives(job) {
                continue;
            }
            let n_ready = leases.ready.len() - view.n_not_for_it(*job_id, &leases.ready);
            let n = view.bundle_size(*job_id, job, n_ready);
            if n == 0 {
                continue;
            }
            let cores = u64::from(job.request.needs.resources.cores);
            sizes.push(n);
            candidates.push(Candidate {
                job: *job_id,
                user: &job.request.user,
                priority: job.request.priority,
                submitted_at: job.submitted_at,
                leased_cores: leases.n_leased.saturating_mul(cores),
                user_leased_cores: users.get(job.request.user.as_str()).copied().unwrap_or(0),
                last_served: leases.last_served,
            });
        }
        let chosen = self.settings.policies.matching.choose(&candidates)?;
        Some((candidates[chosen].job, sizes[chosen]))
    }

    /// Looks at parked pulls again after something became ready or there is something to tell.
    pub(super) fn serve_parked(&mut self) {
        if !std::mem::take(&mut self.volatile.is_stirred) {
            return;
        }
        let parked: Vec<PilotId> = self.volatile.parked.iter().copied().collect();
        let mut has_ready = self.has_ready();
        for id in parked {
            let has_commands = self.volatile.pilots.get(&id).is_some_and(|state| !state.commands.is_empty());
            if !has_commands && !has_ready {
                continue;
            }
            self.feed(id);
            has_ready = self.has_ready();
            let Some(state) = self.volatile.pilots.get_mut(&id) else { continue };
            if state.unconfirmed.is_empty() {
                continue;
            }
            self.volatile.parked.remove(&id);
            if let Some((request, _)) = state.parked.take() {
                self.volatile.arm_pilot(id, self.now + self.settings.heartbeat_limit);
                self.answer_pull(request, id, None);
            }
        }
    }

    fn has_ready(&self) -> bool {
        self.volatile.jobs.values().any(|leases| !leases.ready.is_empty())
    }
}

/// Takes up to `n` of the first ready tasks, but none of those that the pilot still has to answer for.
fn take_ready(ready: &mut TaskSet, revoked: Option<&TaskSet>, n: u64) -> TaskSet {
    let Some(revoked) = revoked else { return ready.take_first(n) };
    let mut free = ready.clone();
    free.remove_all(revoked);
    let tasks = free.take_first(n);
    ready.remove_all(&tasks);
    tasks
}

/// Cores held by each user's tasks.
fn user_cores<'a>(durable: &'a Durable, volatile: &Volatile) -> BTreeMap<&'a str, u64> {
    let mut cores = BTreeMap::new();
    for (id, leases) in volatile.jobs.iter().filter(|(_, leases)| leases.n_leased > 0) {
        if let Some(job) = durable.jobs().get(id) {
            let held = leases.n_leased.saturating_mul(u64::from(job.request.needs.resources.cores));
            *cores.entry(job.request.user.as_str()).or_default() += held;
        }
    }
    cores
}

/// What a pilot has to offer at this moment.
pub(super) struct Offer<'a> {
    settings: &'a Settings,
    durable: &'a Durable,
    pilot: &'a Pilot,
    state: &'a PilotState,
    n_pilots: u64,
    now: Time,
    free: Resources,
}

impl<'a> Offer<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        durable: &'a Durable,
        volatile: &'a Volatile,
        now: Time,
        id: PilotId,
    ) -> Option<Offer<'a>> {
        let pilot = durable.pilots().get(&id)?;
        let state = volatile.pilots.get(&id)?;
        let mut free = pilot.node.capacity.clone();
        free.take(&state.used, 1);
        Some(Offer { settings, durable, pilot, state, n_pilots: volatile.pilots.len() as u64, now, free })
    }

    /// How many of the job's ready tasks the pilot still has to answer for.
    fn n_not_for_it(&self, job: JobId, ready: &TaskSet) -> u64 {
        self.state.revoked.get(&job).map_or(0, |revoked| revoked.intersection(ready).len())
    }

    /// What its leases leave free.
    pub(super) fn free(&self) -> &Resources {
        &self.free
    }

    /// Whether a task of the job begun now would end before the pilot's walltime does.
    pub(super) fn outlives(&self, job: &Job) -> bool {
        let Some(end) = self.pilot.walltime_end() else { return true };
        self.now + expected_duration(job) + self.settings.walltime_margin <= end
    }

    /// How many of the job's ready tasks to send; 0 when there is no room.
    fn bundle_size(&self, id: JobId, job: &Job, n_ready: u64) -> u64 {
        let needs = &job.request.needs.resources;
        let n_slots = needs.how_often_in(&self.pilot.node.capacity);
        if n_slots == 0 {
            return 0;
        }
        let n_startable = needs.how_often_in(&self.free);
        let n_room = match self.depth(job) {
            1 => n_startable,
            depth => {
                n_startable.max((n_slots.saturating_mul(depth) as f64 * (1.0 - self.load(id))).floor() as u64)
            }
        };
        let situation = Situation { n_startable, n_room, n_ready, n_pilots: self.n_pilots };
        self.settings.policies.bundling.size(situation)
    }

    /// How many tasks of the job a slot should have, the running one included: as many as make up
    /// the prefetch time, one while nothing is known or when tasks are long.
    fn depth(&self, job: &Job) -> u64 {
        let Some(mean) = job.totals.wall_mean() else { return 1 };
        let ahead = self.settings.prefetch.0 / mean.0.max(1);
        let depth = (ahead + 1).min(self.settings.prefetch_tasks_max);
        match self.pilot.walltime_end() {
            Some(end) => depth.min(end.since(self.now).0 / mean.0.max(1)).max(1),
            None => depth,
        }
    }

    /// The share of its prefetch that the pilot already holds: 1 is all it should have.
    fn load(&self, asking: JobId) -> f64 {
        let share = |(id, tasks): (&JobId, &crate::ranges::TaskSet)| {
            let Some(job) = self.durable.jobs().get(id) else { return 0.0 };
            let n_slots = job.request.needs.resources.how_often_in(&self.pilot.node.capacity).max(1);
            let depth = if *id == asking { self.depth(job) } else { self.depth(job).max(2) };
            tasks.len() as f64 / n_slots.saturating_mul(depth) as f64
        };
        self.state.leases.iter().map(share).sum::<f64>().min(1.0)
    }
}

/// How long a task of the job is expected to run: its time limit, else the mean so far and three
/// standard deviations, else nothing.
pub(super) fn expected_duration(job: &Job) -> Span {
    let measured =
        job.totals.wall_mean().zip(job.totals.wall_deviation()).map(|(mean, sd)| mean + sd.times(3));
    match (job.request.needs.time_limit, measured) {
        (Some(limit), Some(measured)) => limit.min(measured),
        (limit, measured) => limit.or(measured).unwrap_or(Span::ZERO),
    }
}
