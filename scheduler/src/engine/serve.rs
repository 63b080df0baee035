//! Serving a pilot: which job (matching), how many of its tasks (bundling), what fits it.

use super::{
    Turn,
    durable::{Durable, Job},
    offer::{Offer, Wait},
    settings::Settings,
    volatile::Volatile,
};
use crate::{
    ids::{JobId, PilotId},
    policy::matching::Candidate,
    pull::Bundle,
};

/// Bundles of different jobs in one answer at most; a pilot that wants more pulls again.
const N_BUNDLES_MAX: usize = 16;

impl Turn<'_> {
    /// Leases tasks to a pilot until it has enough, or nothing is left that fits.
    pub(super) fn fill(&mut self, id: PilotId) -> Vec<Bundle> {
        let mut bundles = Vec::new();
        self.volatile.keep(id, None);
        if self.volatile.ready.is_empty() || !self.takes_tasks(id) {
            return bundles;
        }
        let (settings, durable, volatile) = (self.settings, &*self.durable, &mut *self.volatile);
        let Some(mut offer) = Offer::new(settings, durable, volatile, self.now, id) else { return bundles };
        let mut choices = choices(settings, &offer, durable, volatile, id);
        while bundles.len() < N_BUNDLES_MAX
            && has_room_for_templates(settings, durable, volatile, id, &bundles)
        {
            // One bundle a job: after a second one the first would not have been cut at the job's tail.
            let Some(choice) = next(settings, volatile, &offer, &mut choices, id) else { break };
            let (id_of_job, n) = (choice.candidate.job, offer.bundle_size(&choice));
            let revoked = volatile.pilots.get(&id).and_then(|state| state.revoked.get(&id_of_job)).cloned();
            let excluded = revoked.unwrap_or_default();
            let tasks = volatile.less_ready(id_of_job, |ready| ready.take_first_outside(n, &excluded));
            let Some(tasks) = tasks.filter(|tasks| !tasks.is_empty()) else { break };
            volatile.lease(settings, durable, id, id_of_job, &tasks);
            volatile.n_served += 1;
            if let Some(leases) = volatile.jobs.get_mut(&id_of_job) {
                leases.last_served = volatile.n_served;
                // It may not be its turn any more where a pilot keeps cores for it.
                let n_keepers = leases.keepers.len() as u64;
                volatile.free_keepers(id_of_job, n_keepers.saturating_sub(1));
            }
            offer.give(&choice, tasks.len());
            note_served(&mut choices, volatile, &choice);
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
        loop {
            for id in std::mem::take(&mut self.volatile.commanded) {
                self.serve_if_parked(id);
            }
            let Some(job) = self.volatile.stirred.pop_first() else { return };
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

/// The job to serve, taken from `choices`; `None` if none can be, or if the one whose turn it is waits for
/// cores of this pilot that others would only take from it again and again, one after the other.
fn next<'a>(
    settings: &Settings,
    volatile: &mut Volatile,
    offer: &Offer<'_>,
    choices: &mut Vec<Choice<'a>>,
    id: PilotId,
) -> Option<Choice<'a>> {
    let n_keepers = |choice: &Choice<'_>| {
        volatile.jobs.get(&choice.candidate.job).map_or(0, |leases| leases.keepers.len() as u64)
    };
    choices.retain(|choice| {
        offer.n_room(choice) > 0
            || match offer.waits_for(choice.job) {
                Some(Wait::Brief) => n_keepers(choice) < choice.n_ready,
                Some(Wait::Long) => n_keepers(choice) == 0,
                None => false,
            }
    });
    if !choices.iter().any(|choice| offer.n_room(choice) > 0) {
        return None;
    }
    let candidates = choices.iter().map(|choice| &choice.candidate);
    let choice = choices.swap_remove(settings.policies.matching.choose(candidates)?);
    if offer.n_room(&choice) > 0 {
        return Some(choice);
    }
    volatile.keep(id, Some(choice.candidate.job));
    None
}

/// A job with ready tasks that the pilot can run.
pub(super) struct Choice<'a> {
    pub(super) job: &'a Job,
    candidate: Candidate<'a>,
    /// Ready tasks that the pilot may have.
    pub(super) n_ready: u64,
    /// How many of its tasks the whole pilot can run at a time.
    pub(super) n_slots: u64,
    /// How many a slot should have, the running one included.
    pub(super) depth: u64,
    /// How many pilots can run it.
    pub(super) n_fitting: u64,
}

fn choices<'a>(
    settings: &Settings,
    offer: &Offer<'_>,
    durable: &'a Durable,
    volatile: &Volatile,
    id: PilotId,
) -> Vec<Choice<'a>> {
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
            held_cores: leases.held_cores,
            user_held_cores: volatile.user_cores.get(&request.user).copied().unwrap_or(0),
            is_refill: leases.n_leased % settings.depth(job.totals.wall_mean()) > 0,
            last_served: leases.last_served,
        };
        let (depth, n_fitting) = (offer.depth(job), leases.n_fitting);
        (n_ready > 0).then_some(Choice { job, candidate, n_ready, n_slots, depth, n_fitting })
    };
    volatile.ready.iter().filter_map(choice).collect()
}

/// After tasks of this choice were given out: its user holds more.
fn note_served(others: &mut [Choice<'_>], volatile: &Volatile, served: &Choice<'_>) {
    let user = served.candidate.user;
    let held = volatile.user_cores.get(user).copied().unwrap_or(0);
    for other in others.iter_mut().filter(|other| other.candidate.user == user) {
        other.candidate.user_held_cores = held;
    }
}
