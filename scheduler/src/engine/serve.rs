//! Serving a pilot: which job (matching), how many of its tasks (bundling), what fits it.

use super::{
    Turn,
    durable::{Durable, Job, Pilot},
    settings::Settings,
    volatile::Volatile,
};
use crate::{
    ids::{JobId, PilotId},
    policy::{bundling::Situation, matching::Candidate},
    pull::Bundle,
    resources::Resources,
    time::{Span, Time},
};

/// Bundles of different jobs in one answer at most; a pilot that wants more pulls again.
const N_BUNDLES_MAX: usize = 16;

impl Turn<'_> {
    /// Leases tasks to a pilot until it has enough, or nothing is left that fits.
    pub(super) fn fill(&mut self, id: PilotId) -> Vec<Bundle> {
        let mut bundles = Vec::new();
        if self.volatile.ready.is_empty() || !self.takes_tasks(id) {
            return bundles;
        }
        let (settings, durable, volatile) = (self.settings, &*self.durable, &mut *self.volatile);
        let Some(mut offer) = Offer::new(settings, durable, volatile, self.now, id) else { return bundles };
        let mut choices = choices(&offer, durable, volatile, id);
        while bundles.len() < N_BUNDLES_MAX
            && has_room_for_templates(settings, durable, volatile, id, &bundles)
        {
            choices.retain(|choice| offer.n_room(choice) > 0);
            let candidates = choices.iter().map(|choice| &choice.candidate);
            let Some(at) = settings.policies.matching.choose(candidates) else { break };
            // One bundle a job: after a second one the first would not have been cut at the job's tail.
            let choice = choices.swap_remove(at);
            let (id_of_job, n) = (choice.candidate.job, offer.bundle_size(&choice));
            let revoked = volatile.pilots.get(&id).and_then(|state| state.revoked.get(&id_of_job)).cloned();
            let excluded = revoked.unwrap_or_default();
            let tasks = volatile.less_ready(id_of_job, |ready| ready.take_first_outside(n, &excluded));
            let Some(tasks) = tasks.filter(|tasks| !tasks.is_empty()) else { break };
            volatile.lease(durable, id, id_of_job, &tasks);
            volatile.n_served += 1;
            if let Some(leases) = volatile.jobs.get_mut(&id_of_job) {
                leases.last_served = volatile.n_served;
            }
            offer.give(&choice, tasks.len());
            note_served(&mut choices, &choice, tasks.len());
            bundles.push(Bundle { job: id_of_job, tried: choice.job.tried(&tasks), tasks });
        }
        bundles
    }

    fn takes_tasks(&self, id: PilotId) -> bool {
        let state = self.volatile.pilots.get(&id);
        state.is_some_and(|state| state.is_hungry && state.is_synced && state.takes_part)
            && self.volatile.shutdown.is_none()
            && !self.volatile.is_in_grace()
    }

    /// Looks at parked pulls again: of pilots that have something to be told, and of those that could
    /// begin something that may be had since the last time. One who has no core free is not looked at:
    /// it says so itself when a task ends.
    pub(super) fn serve_parked(&mut self) {
        for id in std::mem::take(&mut self.volatile.commanded) {
            self.serve_if_parked(id);
        }
        while let Some(job) = self.volatile.stirred.pop_first() {
            self.offer_to_parked(job);
        }
    }

    fn offer_to_parked(&mut self, id: JobId) {
        let Some(job) = self.durable.jobs().get(&id).filter(|job| !job.is_paused) else { return };
        if self.volatile.shutdown.is_some() || self.volatile.is_in_grace() {
            return;
        }
        let n_cores = job.request.needs.resources.cores;
        for kind in self.volatile.parked.kinds_for(&job.request.needs.resources) {
            let mut from = (n_cores, PilotId(0));
            while self.volatile.ready.contains(&id)
                && let Some((free_cores, pilot)) = self.volatile.parked.taker_from(&kind, from)
            {
                from = (free_cores, PilotId(pilot.0 + 1));
                self.serve_if_parked(pilot);
            }
        }
    }

    fn serve_if_parked(&mut self, id: PilotId) {
        let n_parts = |volatile: &Volatile| {
            let state = volatile.pilots.get(&id).filter(|state| state.parked.is_some());
            state.map(|state| state.n_parts)
        };
        let Some(before) = n_parts(self.volatile) else { return };
        self.feed(id);
        if n_parts(self.volatile) != Some(before)
            && let Some(request) = self.volatile.unpark(id)
        {
            self.volatile.arm_pilot(id, self.now + self.settings.heartbeat_limit);
            self.answer_pull(request, id, None);
        }
    }
}

/// Whether the pilot's next answer may still grow: the templates that it carries, of parts not yet
/// confirmed and of these bundles, are below their limit.
fn has_room_for_templates(
    settings: &Settings,
    durable: &Durable,
    volatile: &Volatile,
    id: PilotId,
    bundles: &[Bundle],
) -> bool {
    let Some(state) = volatile.pilots.get(&id) else { return false };
    let spec_bytes = |job: &JobId| durable.jobs().get(job).map_or(0, |job| job.request.spec.len());
    let unconfirmed = state.unconfirmed.iter().flat_map(|part| &part.templates);
    let new = bundles.iter().map(|bundle| &bundle.job).filter(|job| !state.templates.contains(job));
    let n_bytes: usize = unconfirmed.map(|t| t.spec.len()).chain(new.map(spec_bytes)).sum();
    n_bytes < settings.template_bytes_max
}

/// A job with ready tasks that the pilot can run.
struct Choice<'a> {
    job: &'a Job,
    candidate: Candidate<'a>,
    /// Ready tasks that the pilot may have.
    n_ready: u64,
    /// How many of its tasks the whole pilot can run at a time.
    n_slots: u64,
    /// How many a slot should have, the running one included.
    depth: u64,
    n_fitting: u64,
}

fn choices<'a>(offer: &Offer<'_>, durable: &'a Durable, volatile: &Volatile, id: PilotId) -> Vec<Choice<'a>> {
    let revoked = volatile.pilots.get(&id).map(|state| &state.revoked);
    let choice = |job_id: &JobId| {
        let (job, leases) = (durable.jobs().get(job_id)?, volatile.jobs.get(job_id)?);
        let request = &job.request;
        let n_slots = request.needs.resources.how_often_in(&offer.pilot.node.capacity);
        if n_slots == 0 || job.is_paused || !offer.outlives(job) {
            return None;
        }
        let revoked = revoked.and_then(|revoked| revoked.get(job_id));
        let n_not_for_it = revoked.map_or(0, |revoked| revoked.intersection(&leases.ready).len());
        let n_ready = leases.ready.len() - n_not_for_it;
        let candidate = Candidate {
            job: *job_id,
            user: &request.user,
            priority: request.priority,
            submitted_at: job.submitted_at,
            leased_cores: leases.n_leased.saturating_mul(u64::from(request.needs.resources.cores)),
            user_leased_cores: volatile.user_cores.get(&request.user).copied().unwrap_or(0),
            last_served: leases.last_served,
        };
        let (depth, n_fitting) = (offer.depth(job), leases.n_fitting);
        (n_ready > 0).then_some(Choice { job, candidate, n_ready, n_slots, depth, n_fitting })
    };
    volatile.ready.iter().filter_map(choice).collect()
}

/// After tasks of this choice were given out: its user holds more.
fn note_served(others: &mut [Choice<'_>], served: &Choice<'_>, n_tasks: u64) {
    let n_cores = n_tasks.saturating_mul(u64::from(served.job.request.needs.resources.cores));
    for other in others.iter_mut().filter(|other| other.candidate.user == served.candidate.user) {
        let held = &mut other.candidate.user_leased_cores;
        *held = held.saturating_add(n_cores);
    }
}

/// The share of its prefetch that a pilot has used up before it is sent more: a bundle for each report
/// would have it report each task by itself, as an answer that brings tasks is not held back.
const REFILL: f64 = 0.25;

/// What a pilot has to offer at this moment.
pub(super) struct Offer<'a> {
    settings: &'a Settings,
    pilot: &'a Pilot,
    now: Time,
    free: Resources,
    /// The share of its prefetch that the pilot already holds: 1 is all it should have.
    load: f64,
}

impl<'a> Offer<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        durable: &'a Durable,
        volatile: &Volatile,
        now: Time,
        id: PilotId,
    ) -> Option<Offer<'a>> {
        let pilot = durable.pilots().get(&id)?;
        let state = volatile.pilots.get(&id)?;
        let mut free = pilot.node.capacity.clone();
        free.take(&state.used, 1);
        let mut offer = Offer { settings, pilot, now, free, load: 0.0 };
        for (job, tasks) in &state.leases {
            let Some(job) = durable.jobs().get(job) else { continue };
            let n_slots = job.request.needs.resources.how_often_in(&pilot.node.capacity);
            offer.load += share(tasks.len(), n_slots, offer.depth(job));
        }
        Some(offer)
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

    /// How many tasks of the job could be sent: those that can begin, and those ahead of need.
    fn n_room(&self, choice: &Choice<'_>) -> u64 {
        let n_startable = choice.job.request.needs.resources.how_often_in(&self.free);
        match choice.depth {
            1 => n_startable,
            _ if self.load > 1.0 - REFILL => n_startable,
            depth => {
                let n_all = choice.n_slots.saturating_mul(depth) as f64;
                n_startable.max((n_all * (1.0 - self.load.min(1.0))).floor() as u64)
            }
        }
    }

    /// How many of the job's ready tasks to send; not 0 where there is room.
    fn bundle_size(&self, choice: &Choice<'_>) -> u64 {
        let situation = Situation {
            n_startable: choice.job.request.needs.resources.how_often_in(&self.free),
            n_room: self.n_room(choice),
            n_ready: choice.n_ready,
            n_pilots: choice.n_fitting,
            n_brief: choice.n_slots.saturating_mul(self.n_brief(choice.job)),
        };
        self.settings.policies.bundling.size(situation)
    }

    /// How many of the job's tasks a slot runs, one after the other, in a time too short to be divided.
    fn n_brief(&self, job: &Job) -> u64 {
        let known = job.totals.wall_mean().zip(job.totals.wall_deviation());
        known.map_or(0, |(mean, sd)| self.settings.bundle_min.0 / (mean + sd.times(3)).0.max(1))
    }

    fn give(&mut self, choice: &Choice<'_>, n_tasks: u64) {
        self.free.take(&choice.job.request.needs.resources, n_tasks);
        self.load += share(n_tasks, choice.n_slots, choice.depth);
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
}

/// The share that so many tasks of a job make up of what a pilot should hold. Running ones are not all:
/// others may be sent ahead of them.
fn share(n_tasks: u64, n_slots: u64, depth: u64) -> f64 {
    n_tasks as f64 / n_slots.max(1).saturating_mul(depth.max(2)) as f64
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
