//! Retries elsewhere: a failed task does not go back to the pilot, the node or the platform where it failed
//! while another pilot can run it. The task does not wait for another pilot for ever.

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

/// How often failed tasks are checked for whether they must still wait for another pilot.
const INTERVAL: Span = Span::from_secs(5);

/// A requested pilot counts as able to run a task for this time after the request, and a new pilot after its
/// registration.
const ON_ITS_WAY: Span = Span::from_secs(60);

/// After this wait for another platform, a task may go back to a platform where it failed: at once if other
/// attempts have succeeded there since, and else as a probe, unless this is the task's last attempt.
const TRIED_AFTER: Span = Span::from_secs(60);

/// Number of pilots to look at in search of one that can run a task.
const N_LOOKED_AT: usize = 64;

/// Number of tasks of a job to check at a time for whether they have waited long enough.
const N_TASKS_LOOKED_AT: usize = 4096;

/// The state that decides which pilots can run a task. Cost: O(failures of one task × pieces of sets),
/// however many tasks and pilots there are.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Elsewhere<'a> {
    pub(in crate::engine) settings: &'a Settings,
    pub(in crate::engine) durable: &'a Durable,
    pub(in crate::engine) live: &'a Live,
    pub(in crate::engine) now: Time,
}

impl Elsewhere<'_> {
    /// Returns ready tasks of the job that the pilot does not get, because they failed there or nearby and
    /// another pilot can run them.
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
        // Tasks that have failed on every other platform that can run them.
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
        // Of these tasks, the ones that have not failed on this node, or on this pilot, may be retried here.
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

    /// Returns whether another pilot can run a task of the job.
    pub(in crate::engine) fn is_any_other(&self, id: PilotId, job_id: JobId) -> bool {
        let job = self.durable.jobs().get(&job_id).zip(self.live.jobs.get(&job_id));
        let Some(((job, leases), pilot)) = job.zip(self.durable.pilots().get(&id)) else { return false };
        self.others(pilot.place(id), job, leases).next().is_some()
    }

    /// Returns the other pilots, of all platforms, that can run a task of the job.
    fn others(&self, here: Place, job: &Job, leases: &JobLeases) -> impl Iterator<Item = Place> {
        let may_take = self.durable.platforms().keys().filter(|id| self.may_take(**id, job, leases));
        may_take.flat_map(|id| self.pilots(*id, job)).filter(move |other| other.pilot != here.pilot)
    }

    /// Returns whether the platform may take any of the job's tasks.
    fn may_take(&self, platform: PlatformId, job: &Job, leases: &JobLeases) -> bool {
        let quotas = &self.live.plan.quotas;
        let is_meant = leases.meant(quotas, quotas.column(platform), self.now) != Entitlement::Nothing;
        is_meant && limits::n_allowed(self.durable, self.live, platform, job) > 0
    }

    /// Returns pilots of the platform that can run a task of the job.
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

    /// Returns whether a pilot of the platform was requested a moment ago and may come.
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

/// Returns the tasks that are also in `failed`.
fn narrowed(tasks: &TaskSet, failed: Option<&TaskSet>) -> TaskSet {
    failed.map(|failed| tasks.intersection(failed)).unwrap_or_default()
}

impl Turn<'_> {
    /// Notes that failed tasks of the job are ready: they may be withheld from pilots for a while.
    pub(in crate::engine) fn note_retried(&mut self, id: JobId) {
        if self.durable.jobs().get(&id).is_some_and(|job| !job.failed_at.is_empty()) {
            self.live.note_retried(id, self.now);
        }
    }

    /// Offers failed tasks to all pilots again: the pilots for which they wait may be gone, or they have
    /// waited for long enough.
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

    /// Returns two sets of the job's waiting tasks: the tasks that no longer wait for another platform or
    /// node, and the tasks that no longer wait for another pilot of the same node. One task at a time goes
    /// back sooner, to show whether its platform has recovered.
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

    /// Lets a task that has failed again wait for other pilots anew.
    pub(in crate::engine) fn is_patient_again(&mut self, job: JobId, index: u64) {
        for waited in [&mut self.impatient, &mut self.restless] {
            if let Some(tasks) = waited.get_mut(&job) {
                tasks.remove(index);
            }
        }
    }

    /// Offers failed tasks again after pilots have gone for which they may have waited.
    pub(in crate::engine) fn stir_retried(&mut self) {
        self.dirty_jobs.extend(self.retried.intersection(&self.ready));
    }
}
