//! A task that has failed is tried again elsewhere: not at the pilot where it failed, nor on that node, nor on that
//! platform, while another pilot can run it. It does not wait for that for ever.

use crate::{
    engine::{
        dispatch::capacity::outlives,
        interface::{platform::platform_spec::PlatformMode, settings::Settings},
        live::{Live, job_leases::JobLeases, plan::quota::Entitlement, platform::limits, timers::Timer},
        state::{durable::Durable, job::Job, pilot::Pilot, places::Place},
        turn::Turn,
    },
    ids::{JobId, PilotId, PlatformId},
    ranges::TaskSet,
    resources::Resources,
    time::{Span, Time},
};

/// How often it is looked at whether tasks still have to wait for others than those on which they failed.
const INTERVAL: Span = Span::from_secs(5);

/// A pilot that is on its way counts as one that can run a task for so long after it was asked for.
const ON_ITS_WAY: Span = Span::from_secs(60);

/// A task that waits for another platform goes back to one where others have succeeded since it failed there after so
/// long, and to one where none has as a try, if that is not its last.
const TRIED_AFTER: Span = Span::from_secs(60);

/// So many pilots are looked at to find one that can run a task.
const N_LOOKED_AT: usize = 64;

/// … and so many tasks at a time for whether they have waited long enough.
const N_TASKS_LOOKED_AT: usize = 4096;

/// The state that decides who can run a task. Cost: O(failures of one task × pieces of sets), whatever there is.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Elsewhere<'a> {
    pub(in crate::engine) settings: &'a Settings,
    pub(in crate::engine) durable: &'a Durable,
    pub(in crate::engine) live: &'a Live,
    pub(in crate::engine) now: Time,
}

impl Elsewhere<'_> {
    /// Ready tasks of the job that the pilot does not get, as they failed there or near there and another can run them.
    pub(in crate::engine) fn not_for(&self, id: PilotId, job_id: JobId) -> TaskSet {
        let job = self.durable.jobs().get(&job_id).filter(|job| !job.failed_at.is_empty());
        let leases = self.live.jobs.get(&job_id).filter(|leases| leases.profiled_on.is_none());
        let (Some(job), Some(leases), Some(pilot)) = (job, leases, self.durable.pilots().get(&id)) else {
            return TaskSet::new();
        };
        let here = pilot.place(id);
        let Some(failed) = job.failed_at.on_platform(here.platform) else { return TaskSet::new() };
        let mut failed = failed.intersection(&leases.ready);
        if let Some(impatient) = self.live.impatient.get(&job_id) {
            failed.remove_all(impatient);
        }
        // Those that have failed on every other platform that can run them.
        let mut left = failed.clone();
        for (platform, spec) in self.durable.platforms() {
            if left.is_empty() {
                return failed;
            }
            let narrowed = narrowed(&left, job.failed_at.on_platform(*platform));
            let needs = &job.request.needs.resources;
            let can_run = || {
                self.may_take(*platform, job, leases)
                    && (self.pilots(*platform, job).next().is_some()
                        || needs.fits_in(&spec.capacity) && self.is_one_on_its_way(*platform))
            };
            if *platform != here.platform && narrowed.len() < left.len() && can_run() {
                left = narrowed;
            }
        }
        let mut avoided = failed;
        avoided.remove_all(&left);
        if left.is_empty() {
            return avoided;
        }
        // Of these, those that have not failed on this node, or at this pilot, may be tried here.
        let others: Vec<Place> = self.others(here, job, leases).collect();
        let here_too = job.failed_at.on_node(here.node).map(|tasks| tasks.intersection(&left));
        let here_too = here_too.unwrap_or_default();
        let mut left = here_too.clone();
        for other in others.iter().filter(|other| other.node != here.node) {
            left = narrowed(&left, job.failed_at.on_node(other.node));
        }
        avoided.insert_all(&here_too);
        avoided.remove_all(&left);
        let here_too = job.failed_at.at_pilot(here.pilot).map(|tasks| tasks.intersection(&left));
        let mut here_too = here_too.unwrap_or_default();
        if let Some(restless) = self.live.restless.get(&job_id) {
            // Another pilot of the same node is hardly worth a wait.
            here_too.remove_all(restless);
        }
        let mut left = here_too.clone();
        for other in &others {
            left = narrowed(&left, job.failed_at.at_pilot(other.pilot));
        }
        avoided.insert_all(&here_too);
        avoided.remove_all(&left);
        avoided
    }

    /// Whether another pilot can run a task of the job.
    pub(in crate::engine) fn is_any_other(&self, id: PilotId, job_id: JobId) -> bool {
        let job = self.durable.jobs().get(&job_id).zip(self.live.jobs.get(&job_id));
        let Some(((job, leases), pilot)) = job.zip(self.durable.pilots().get(&id)) else { return false };
        self.others(pilot.place(id), job, leases).next().is_some()
    }

    /// Other pilots that can run a task of the job, of all platforms.
    fn others(&self, here: Place, job: &Job, leases: &JobLeases) -> impl Iterator<Item = Place> {
        let may_take = self.durable.platforms().keys().filter(|id| self.may_take(**id, job, leases));
        may_take.flat_map(|id| self.pilots(*id, job)).filter(move |other| other.pilot != here.pilot)
    }

    /// Whether the platform is meant for any of the job's tasks.
    fn may_take(&self, platform: PlatformId, job: &Job, leases: &JobLeases) -> bool {
        let quotas = &self.live.plan.quotas;
        let is_meant = leases.meant(quotas, quotas.column(platform), self.now) != Entitlement::Nothing;
        is_meant && limits::n_allowed(self.durable, self.live, platform, job) > 0
    }

    /// Pilots of the platform that can run a task of the job.
    fn pilots(&self, platform: PlatformId, job: &Job) -> impl Iterator<Item = Place> {
        let kinds = self.live.capacities.range((platform, Resources::default())..);
        let kinds = kinds.take_while(move |((of, _), _)| *of == platform);
        let fitting = kinds.filter(|((_, capacity), _)| job.request.needs.resources.fits_in(capacity));
        let pilots = fitting.flat_map(|(_, pilots)| pilots).take(N_LOOKED_AT);
        pilots.filter_map(|id| {
            let pilot = self.durable.pilots().get(id)?;
            self.can_run(*id, pilot, job).then(|| pilot.place(*id))
        })
    }

    fn can_run(&self, id: PilotId, pilot: &Pilot, job: &Job) -> bool {
        let Some(state) = self.live.pilots.get(&id).filter(|state| state.is_synced) else { return false };
        let is_new = self.now.since(pilot.registered_at) < ON_ITS_WAY;
        (state.is_hungry || is_new) && !state.is_doubted && outlives(self.settings, pilot, job, self.now)
    }

    /// Whether a pilot of the platform was asked for a moment ago and may come.
    fn is_one_on_its_way(&self, id: PlatformId) -> bool {
        let is_well = self.live.platforms.get(&id).is_some_and(|state| state.n_failures == 0);
        if !is_well
            || self.durable.mode(id) != PlatformMode::Active
            || self.durable.allocation_counts(id).n_waiting == 0
        {
            return false;
        }
        let newest = self.durable.newest_allocation_there(id);
        newest.is_some_and(|held| held.n_waiting() > 0 && self.now.since(held.intended_at) < ON_ITS_WAY)
    }
}

/// Those of the tasks that failed there too.
fn narrowed(tasks: &TaskSet, failed: Option<&TaskSet>) -> TaskSet {
    failed.map(|failed| tasks.intersection(failed)).unwrap_or_default()
}

impl Turn<'_> {
    /// Tasks of the job that have failed are ready: they may be kept from pilots for a while.
    pub(in crate::engine) fn note_retried(&mut self, id: JobId) {
        if self.durable.jobs().get(&id).is_some_and(|job| !job.failed_at.is_empty()) {
            self.live.note_retried(id, self.now);
        }
    }

    /// Offers tasks that have failed to all pilots again: those for which they wait may be gone, or they have waited for
    /// long enough.
    pub(in crate::engine) fn look_at_retries(&mut self) {
        self.live.retries_due_at = None;
        for id in std::mem::take(&mut self.live.retried) {
            self.live.impatient.remove(&id);
            self.live.restless.remove(&id);
            let Some(job) = self.durable.jobs().get(&id) else { continue };
            let Some(leases) = self.live.jobs.get(&id) else { continue };
            let waiting = job.failed_at.all().intersection(&leases.ready);
            if waiting.is_empty() {
                continue;
            }
            let (impatient, restless) = self.have_waited(job, &waiting);
            self.live.impatient.insert(id, impatient);
            self.live.restless.insert(id, restless);
            self.live.dirty_jobs.insert(id);
            self.live.note_retried(id, self.now);
        }
    }

    /// Of the job's tasks that wait, those that wait for no other platform or node any more, and those that wait for no
    /// other pilot of the same node. One at a time goes back sooner, to show whether its platform is mended.
    fn have_waited(&self, job: &Job, waiting: &TaskSet) -> (TaskSet, TaskSet) {
        let (mut impatient, mut restless) = (TaskSet::new(), TaskSet::new());
        let mut longest: Option<(Time, u64)> = None;
        for index in waiting.indices().take(N_TASKS_LOOKED_AT) {
            let Some(trouble) = job.troubled.get(&index) else { continue };
            let waited = self.now.since(trouble.retry_at);
            if waited >= self.settings.retry_elsewhere.min(INTERVAL) {
                restless.insert(index);
            }
            let is_mended = |place: &Place| {
                let known = self.durable.facts().known(place.platform, &job.request.application).measured;
                known.is_some_and(|known| known.n_since_loss() > 0)
            };
            if waited >= self.settings.retry_elsewhere
                || waited >= TRIED_AFTER && trouble.places.iter().any(is_mended)
            {
                impatient.insert(index);
            } else if waited >= TRIED_AFTER && trouble.n_program < job.request.retries {
                let this = (trouble.retry_at, index);
                longest = Some(longest.map_or(this, |longest| longest.min(this)));
            }
        }
        impatient.extend_indices(longest.map(|(_, index)| index));
        (impatient, restless)
    }
}

impl Live {
    pub(in crate::engine) fn note_retried(&mut self, id: JobId, now: Time) {
        self.retried.insert(id);
        if self.retries_due_at.is_none() {
            let due_at = now + INTERVAL;
            self.retries_due_at = Some(due_at);
            self.timers.insert((due_at, Timer::Retries));
        }
    }

    /// A task has failed again: it waits for others anew.
    pub(in crate::engine) fn is_patient_again(&mut self, job: JobId, index: u64) {
        for waited in [&mut self.impatient, &mut self.restless] {
            if let Some(tasks) = waited.get_mut(&job) {
                tasks.remove(index);
            }
        }
    }

    /// Pilots are there no more that tasks which have failed may have waited for.
    pub(in crate::engine) fn stir_retried(&mut self) {
        self.dirty_jobs.extend(self.retried.intersection(&self.ready));
    }
}
