//! Serves a pilot: chooses the job (matching) and the number of its tasks (bundling), as far as they fit the
//! pilot.

use std::collections::BTreeMap;

use crate::{
    engine::{
        dispatch::{
            candidate::{JobCandidate, has_room_for_templates},
            capacity::{PilotCapacity, Wait},
            elsewhere::Elsewhere,
            shortlist::shortlist,
            usage::PlatformUsage,
        },
        interface::{job_request::JobRequest, settings::Settings},
        live::{
            Live,
            pilots::{pilot_state::PilotState, reservation::Reservation},
            plan::quota::{Entitlement, QuotaPlace},
            platform::limits,
            ready::queue::first_in_line,
        },
        state::{durable::Durable, job::Job},
        turn::Turn,
    },
    ids::{JobId, PilotId},
    policy::matching::{Candidate, Standing, Urgency},
    pull::Bundle,
    ranges::TaskSet,
    time::Span,
};

/// The most bundles in one answer, each of another job; a pilot that wants more pulls again.
const N_BUNDLES_MAX: usize = 16;

impl Turn<'_> {
    /// Leases tasks to a pilot until it has enough, or no task is left that fits.
    pub(in crate::engine) fn fill(&mut self, id: PilotId) -> Vec<Bundle> {
        self.fill_profiling(id).unwrap_or_else(|| self.fill_any(id))
    }

    fn fill_any(&mut self, id: PilotId) -> Vec<Bundle> {
        let mut bundles = Vec::new();
        let mut kept = self.live.keep_nothing(id);
        let is_held_back = |state: &PilotState| state.is_held_back(self.now);
        if self.live.ready.is_empty()
            || !self.takes_tasks(id)
            || self.live.pilots.get(&id).is_some_and(|state| is_held_back(state))
        {
            return bundles;
        }
        if let Some(alone) = self.serve_alone(id) {
            return alone;
        }
        let is_doubted = self.live.pilots.get(&id).is_some_and(|state| state.is_doubted);
        let (settings, durable, live) = (self.settings, &*self.durable, &mut *self.live);
        let Some(mut offer) = PilotCapacity::new(settings, durable, live, self.now, id) else {
            return bundles;
        };
        // A full pilot gets nothing, so there is no need to compare candidates.
        if kept.is_none() && offer.is_full() {
            return bundles;
        }
        let (mut choices, mut is_short) = first_choices(settings, &offer, (durable, live), id, kept);
        while bundles.len() < N_BUNDLES_MAX && has_room_for_templates(settings, durable, live, id, &bundles) {
            // One bundle per job: with a second bundle the first would not have been cut at the job's tail.
            let mut best = next(live, &offer, &mut choices, (id, kept));
            if best.is_none() && std::mem::take(&mut is_short) && !live.keeps(id) && !offer.is_full() {
                // The shortlisted jobs do not fill the pilot.
                choices = all_choices(settings, &offer, (durable, live), id);
                choices
                    .retain(|choice| !is_served(&bundles, choice.candidate.job) || offer.n_room(choice) == 0);
                best = next(live, &offer, &mut choices, (id, kept));
            }
            let Some(mut choice) = best else { break };
            let id_of_job = choice.candidate.job;
            if is_doubted {
                choice.n_ready = 1;
            }
            let ranks = take(live, &offer, &choice, id);
            let tasks = all_of(&ranks);
            if tasks.is_empty() {
                break;
            }
            let before = live.cores_of(choice.candidate.user);
            live.lease(settings, durable, id, id_of_job, &tasks);
            live.note_turn(id, id_of_job);
            let (user, divided, n_tasks) = (choice.candidate.user, choice.divided, tasks.len());
            let (application, n_cores) = (&choice.job.request.application, choice.cores_of(n_tasks));
            live.take_quota(offer.pilot.platform, id_of_job, n_tasks, offer.now());
            kept = kept.filter(|kept| kept.job != id_of_job);
            offer.give(&choice, n_tasks);
            let tried = |tasks: &TaskSet| choice.job.tried(tasks);
            bundles.extend(ranks.into_iter().map(|tasks| Bundle {
                job: id_of_job,
                tried: tried(&tasks),
                tasks,
                is_given: false,
            }));
            if is_doubted {
                // One task shows whether the node of a suspected black hole has recovered.
                break;
            }
            choice.n_ready -= n_tasks;
            choices.extend(goes_on(live, &offer, choice));
            note_served(&mut choices, user, live.cores_of(user) - before);
            note_taken(&mut choices, divided, n_tasks);
            note_on_node(&mut choices, application, n_cores);
            if is_short {
                // The ranking may have changed; it is computed again.
                choices.clear();
            }
        }
        bundles
    }

    pub(in crate::engine) fn takes_tasks(&self, id: PilotId) -> bool {
        let state = self.live.pilots.get(&id);
        state.is_some_and(|state| state.is_hungry && state.is_synced && state.takes_part) && self.gives_out()
    }

    /// Returns whether any pilot gets tasks now.
    pub(in crate::engine) fn gives_out(&self) -> bool {
        self.live.shutdown.is_none() && !self.live.is_in_grace()
    }

    /// Looks at parked pulls again: the pulls of pilots that are to be notified, and of pilots that could
    /// start a task that has become ready since the last time. A pilot without a free core is not looked at:
    /// it pulls by itself when a task ends.
    pub(in crate::engine) fn serve_parked(&mut self) {
        loop {
            for id in std::mem::take(&mut self.live.pilots_to_notify) {
                self.serve_if_parked(id);
            }
            let Some(job) = self.live.dirty_jobs.pop_first() else { return };
            self.offer_to_parked(job);
        }
    }

    fn offer_to_parked(&mut self, id: JobId) {
        let Some(job) = self.durable.jobs().get(&id).filter(|job| !job.is_paused) else { return };
        if !self.gives_out() {
            return;
        }
        let n_cores = job.request.needs.resources.cores;
        for kind in self.live.parked.kinds_for(&job.request.needs.resources) {
            let mut from = (n_cores, PilotId(0));
            while self.live.ready.contains(&id)
                && let Some((free_cores, pilot)) = self.live.parked.taker_from(&kind, from)
            {
                from = (free_cores, PilotId(pilot.0 + 1));
                if !self.keeps_for_no_less(pilot, id) && !self.is_closed(pilot, id) {
                    self.serve_if_parked(pilot);
                }
            }
        }
    }

    /// Returns whether the pilot has reserved its free cores for another job that this job does not outrank.
    fn keeps_for_no_less(&self, pilot: PilotId, id: JobId) -> bool {
        let jobs = self.durable.jobs();
        let kept = self.live.pilots.get(&pilot).and_then(|state| state.reservation);
        kept.is_some_and(|kept| {
            let is_less = match (jobs.get(&kept.job), jobs.get(&id)) {
                (Some(kept), Some(new)) => urgency(&new.request).outranks(urgency(&kept.request)),
                _ => false,
            };
            kept.job != id && !is_less && !self.is_closed(pilot, kept.job)
        })
    }

    /// Returns whether the pilot's platform must take nothing of the job.
    fn is_closed(&self, pilot: PilotId, job: JobId) -> bool {
        let platform = self.durable.pilots().get(&pilot).map(|pilot| pilot.platform);
        let column = platform.and_then(|platform| self.live.plan.quotas.column(platform));
        let leases = self.live.jobs.get(&job).filter(|_| column.is_some());
        let quotas = &self.live.plan.quotas;
        leases.is_some_and(|leases| leases.meant(quotas, column, self.now) == Entitlement::Nothing)
    }

    fn serve_if_parked(&mut self, id: PilotId) {
        let n_parts = |live: &Live| {
            let state = live.pilots.get(&id).filter(|state| state.parked.is_some());
            state.map(|state| state.n_parts)
        };
        let Some(before) = n_parts(self.live) else { return };
        self.feed(id);
        if n_parts(self.live) != Some(before) {
            self.answer_parked(id);
        }
    }

    /// Answers the pilot's parked pull, if it has one, with the tasks that were sent to it and not confirmed.
    pub(in crate::engine) fn answer_parked(&mut self, id: PilotId) {
        if let Some(request) = self.live.unpark(id) {
            // The connection was open until now, so the pilot was alive.
            if let Some(state) = self.live.pilots.get_mut(&id) {
                state.last_heard = self.now;
            }
            self.live.arm_pilot(id, self.now + self.settings.heartbeat_limit);
            self.answer_pull(request, id, None);
        }
    }
}

/// Takes the job to serve from `choices`. Returns `None` if no job can be served, or if the first job waits
/// for cores of this pilot that other jobs would otherwise take one after another: then the pilot reserves
/// its cores. Once cores are reserved, a change of turns elsewhere does not end the reservation: a wide task
/// would otherwise lose its cores again and again.
fn next<'a>(
    live: &mut Live,
    offer: &PilotCapacity<'_>,
    choices: &mut Vec<JobCandidate<'a>>,
    (id, kept): (PilotId, Option<Reservation>),
) -> Option<JobCandidate<'a>> {
    let keep = |choice: &JobCandidate<'_>| {
        let job = choice.candidate.job;
        let new = Reservation { job, since: live.n_served, until: offer.all_ended_at() };
        kept.filter(|kept| kept.job == job)
            .map_or(new, |kept| Reservation { until: kept.until.min(new.until), ..kept })
    };
    choices.retain(|choice| {
        let leases = live.jobs.get(&choice.candidate.job);
        let mut reservations = leases.into_iter().flat_map(|leases| &leases.reservations);
        offer.n_room(choice) > 0
            || match offer.waits_for(choice.job) {
                Some(Wait::Brief) => (reservations.count() as u64) < choice.n_ready,
                Some(Wait::Long) => {
                    reservations.all(|(_, keeper)| live.is_sooner(keep(choice), *keeper, offer.now()))
                }
                None => false,
            }
    });
    let keeps = |choice: &JobCandidate<'_>| kept.is_some_and(|kept| kept.job == choice.candidate.job);
    let of_most =
        |choice: &JobCandidate<'_>| !choices.iter().any(|other| other.candidate.outranks(&choice.candidate));
    let candidates = choices.iter().map(|choice| &choice.candidate);
    let at = match choices.iter().position(|choice| keeps(choice) && of_most(choice)) {
        Some(at) => at,
        None if choices.iter().all(|choice| offer.n_room(choice) == 0) => return None,
        None => offer.policies.matching.choose(candidates)?,
    };
    let choice = choices.swap_remove(at);
    if offer.n_room(&choice) > 0 {
        return Some(choice);
    }
    let keep = keep(&choice);
    live.keep(id, keep);
    None
}

/// Returns jobs with ready tasks that the pilot can run. With `true` they are only the shortlist from which
/// the first job comes, else all jobs that may be served in this answer.
fn first_choices<'a>(
    settings: &Settings,
    offer: &PilotCapacity<'_>,
    all: (&'a Durable, &Live),
    id: PilotId,
    kept: Option<Reservation>,
) -> (Vec<JobCandidate<'a>>, bool) {
    let here = PlatformUsage::of(settings, all, offer.pilot.platform, id);
    if offer.policies.matching.by_application().is_none() || kept.is_some() {
        // Quotas apply to waiting jobs and depend on their waiting time.
        let has_quotas = all.1.plan.quotas.column(offer.pilot.platform).is_some();
        // Nothing is prefetched of jobs that have not run yet, so each takes at least one core.
        let n = N_BUNDLES_MAX.min(offer.free().cores as usize);
        let first = first_in_line(all.0, all.1, (id, kept), n).filter(|_| !has_quotas);
        let jobs: &mut dyn Iterator<Item = JobId> = match first {
            Some(first) => &mut first.into_iter(),
            None => &mut all.1.ready.iter().copied(),
        };
        return (choices(settings, (offer, &here), all, id, jobs), false);
    }
    match shortlist(offer, &here, all.1) {
        // Tasks that are kept apart or retried elsewhere may leave nothing for this pilot.
        Some(jobs) if !jobs.iter().any(|job| all.1.keeps_apart(*job) || all.1.retried.contains(job)) => {
            (choices(settings, (offer, &here), all, id, &mut jobs.into_iter()), true)
        }
        _ => (choices(settings, (offer, &here), all, id, &mut all.1.ready.iter().copied()), false),
    }
}

/// Returns all jobs with ready tasks that the pilot can run.
pub(in crate::engine) fn all_choices<'a>(
    settings: &Settings,
    offer: &PilotCapacity<'_>,
    all: (&'a Durable, &Live),
    id: PilotId,
) -> Vec<JobCandidate<'a>> {
    let here = PlatformUsage::of(settings, all, offer.pilot.platform, id);
    choices(settings, (offer, &here), all, id, &mut all.1.ready.iter().copied())
}

/// Returns those of `jobs` that have ready tasks that the pilot can run.
pub(in crate::engine) fn choices<'a>(
    settings: &Settings,
    (offer, here): (&PilotCapacity<'_>, &PlatformUsage<'_>),
    (durable, live): (&'a Durable, &Live),
    id: PilotId,
    jobs: &mut dyn Iterator<Item = JobId>,
) -> Vec<JobCandidate<'a>> {
    let state = live.pilots.get(&id);
    let (revoked, previous) = (state.map(|state| &state.revoked), state.and_then(|state| state.previous));
    let kept_cores = if live.n_reservations > 0 { kept_cores(durable, live) } else { BTreeMap::new() };
    let (plan, platform) = (&live.plan, offer.pilot.platform);
    let column = plan.quotas.column(platform);
    let troubled = state.map(|state| (live.troubled(state), state));
    let elsewhere = Elsewhere { settings, durable, live, now: offer.now() };
    let choice = |job_id: JobId| {
        let (job, leases) = (durable.jobs().get(&job_id)?, live.jobs.get(&job_id)?);
        let (request, user) = (&job.request, job.request.user.as_str());
        let n_slots = request.needs.resources.how_often_in(&offer.pilot.node.capacity);
        if n_slots == 0 || job.is_paused || !offer.outlives(job) {
            return None;
        }
        let quota = match leases.meant(&plan.quotas, column, offer.now()) {
            Entitlement::Nothing => return None,
            Entitlement::Anything => None,
            Entitlement::Quota(quota) => Some(quota),
        };
        let is_any_not_for_it =
            live.keeps_apart(job_id) || revoked.is_some_and(|revoked| revoked.contains_key(&job_id));
        let not_for_it = troubled.filter(|_| is_any_not_for_it);
        let not_for_it = not_for_it.map(|(held, state)| live.not_beside(held, state, job_id));
        let avoided = elsewhere.not_for(id, job_id);
        let n_not_for_it = match not_for_it {
            None => avoided.len(),
            Some(mut not_for_it) => {
                not_for_it.insert_all(&avoided);
                not_for_it.intersection(&leases.ready).len()
            }
        };
        let n_allowed = limits::n_allowed(durable, live, offer.pilot.platform, job);
        let mut n_ready = (leases.ready.len() - n_not_for_it).min(n_allowed);
        let most = live.most_at_a_time(job_id, n_slots);
        if most < n_slots && offer.is_careful(job_id) {
            let n_held = state.and_then(|state| state.leases.get(&job_id)).map_or(0, TaskSet::len);
            n_ready = n_ready.min(most.saturating_sub(n_held));
        }
        let depth = job.depth(settings);
        let (standing, node_left) = here.standing(&request.application, request.needs.resources.cores);
        let kept = kept_cores.get(user).copied().unwrap_or(0);
        let kept_for_others = kept.saturating_sub(leases.kept_cores(job));
        let candidate = Candidate {
            job: job_id,
            user,
            priority: request.priority,
            rank: request.rank(),
            submitted_at: job.submitted_at,
            held_cores: leases.held_cores,
            user_held_cores: live.cores_of(user).saturating_add(kept_for_others),
            user_held_here: here.held(leases),
            user_share: here.share(leases),
            is_dry: quota.is_some_and(|quota| quota.n_left == 0),
            standing,
            is_previous: previous == Some(job_id),
            score: plan.score(platform, &request.application),
            work_left: work_left(job),
            is_refill: leases.n_leased < leases.n_slots(depth).saturating_mul(depth),
            last_served: leases.last_served,
        };
        let (depth, n_fitting) = (offer.depth((job_id, job)), leases.n_fitting);
        (n_ready > 0).then_some(JobCandidate {
            job,
            candidate,
            divided: leases.divided,
            quota,
            node_left,
            n_ready,
            n_slots,
            depth,
            n_fitting,
            avoided,
        })
    };
    jobs.filter_map(choice).collect()
}

fn urgency(request: &JobRequest) -> Urgency<'_> {
    Urgency { user: &request.user, rank: request.rank(), priority: request.priority }
}

fn is_served(bundles: &[Bundle], job: JobId) -> bool {
    bundles.iter().any(|bundle| bundle.job == job)
}

/// Returns a job that was just served as a candidate again, if it has filled the pilot and has more ready
/// tasks: cores that come free next may be for it as well.
fn goes_on<'a>(
    live: &Live,
    offer: &PilotCapacity<'_>,
    mut choice: JobCandidate<'a>,
) -> Option<JobCandidate<'a>> {
    if choice.n_ready == 0 || offer.n_room(&choice) > 0 {
        return None;
    }
    let leases = live.jobs.get(&choice.candidate.job);
    choice.candidate.held_cores = leases.map_or(0, |leases| leases.held_cores);
    (choice.candidate.last_served, choice.candidate.is_refill) = (live.n_served, false);
    Some(choice)
}

/// Returns how many of the job's tasks the rest of its user's fair share of the platform allows; any number
/// once the share is used up, because then no other user has a better claim.
fn n_of_share(choice: &JobCandidate<'_>) -> u64 {
    let Candidate { user_held_here, user_share, .. } = choice.candidate;
    let left = user_share.map_or(0, |share| share.saturating_sub(user_held_here));
    let n_slots = left.div_ceil(u64::from(choice.job.request.needs.resources.cores).max(1));
    if left == 0 { u64::MAX } else { n_slots.saturating_mul(choice.depth) }
}

fn all_of(sets: &[TaskSet]) -> TaskSet {
    let mut all = TaskSet::new();
    sets.iter().for_each(|tasks| all.insert_all(tasks));
    all
}

/// Takes tasks of the chosen job for the pilot, as one set per bundle: tasks that are to start first, then
/// others.
fn take(live: &mut Live, offer: &PilotCapacity<'_>, choice: &JobCandidate<'_>, id: PilotId) -> Vec<TaskSet> {
    let job = choice.candidate.job;
    let mut excluded = live.not_for(id, job);
    excluded.insert_all(&choice.avoided);
    let (n_others, n_quota) = (n_of_share(choice).min(n_of_node(choice)), n_of_quota(choice));
    match offer.taker(choice, n_others.div_ceil(choice.depth.max(1))) {
        Some(taker) => {
            let n_most = offer.n_packed_most(choice, taker.n_bins).min(n_quota).min(choice.n_ready);
            live.pack_ready((job, choice.job), &taker, n_most, &excluded)
        }
        None => {
            let n = offer.bundle_size(choice).min(n_others).min(n_quota).min(choice.n_ready);
            let mut tasks = live.take_suspects(job, n, &excluded);
            tasks.insert_all(&live.take_ready(job, n - tasks.len(), &excluded));
            vec![tasks]
        }
    }
}

/// Returns how many of the job's tasks its quota on the platform allows; any number once the platform takes
/// over from other platforms.
fn n_of_quota(choice: &JobCandidate<'_>) -> u64 {
    choice.quota.map(|quota| quota.n_left).filter(|n_left| *n_left > 0).unwrap_or(u64::MAX)
}

/// Returns how many of the job's tasks the node mix allows; any number once the application has all its
/// cores.
fn n_of_node(choice: &JobCandidate<'_>) -> u64 {
    let n_slots = |left: u64| left / u64::from(choice.job.request.needs.resources.cores).max(1);
    choice.node_left.map_or(u64::MAX, |left| n_slots(left).saturating_mul(choice.depth))
}

/// Returns the seconds that a job's open tasks are expected to take together; 0 while no runtime is known.
fn work_left(job: &Job) -> u64 {
    let mean = job.totals.wall_mean().unwrap_or(Span::ZERO);
    mean.0.saturating_mul(job.open.len()) / 1_000_000
}

/// Returns the cores that pilots have reserved for each user's jobs with ready tasks. They count as the
/// user's already: otherwise the user would get more elsewhere in the meantime.
fn kept_cores<'a>(durable: &'a Durable, live: &Live) -> BTreeMap<&'a str, u64> {
    let mut kept = BTreeMap::<&str, u64>::new();
    for id in live.reserved_jobs.intersection(&live.ready) {
        let (Some(job), Some(leases)) = (durable.jobs().get(id), live.jobs.get(id)) else { continue };
        let cores = kept.entry(&job.request.user).or_default();
        *cores = cores.saturating_add(leases.kept_cores(job));
    }
    kept
}

/// Updates the candidates after tasks of a user were given out: the user holds `n_cores` more cores.
fn note_served(choices: &mut [JobCandidate<'_>], user: &str, n_cores: u64) {
    for choice in choices.iter_mut().filter(|choice| choice.candidate.user == user) {
        let Candidate { user_held_cores, user_held_here, .. } = &mut choice.candidate;
        *user_held_cores = user_held_cores.saturating_add(n_cores);
        *user_held_here = user_held_here.saturating_add(n_cores);
    }
}

/// Updates the candidates after tasks of a task class were given out: the class quota of the platform
/// shrinks.
fn note_taken(choices: &mut Vec<JobCandidate<'_>>, divided: QuotaPlace, n_tasks: u64) {
    for choice in choices.iter_mut().filter(|choice| choice.divided == divided) {
        if let Some(quota) = &mut choice.quota {
            quota.n_left = quota.n_left.saturating_sub(n_tasks);
            choice.candidate.is_dry = quota.n_left == 0;
        }
    }
    // A throttled platform takes over nothing.
    choices.retain(|choice| !choice.quota.is_some_and(|quota| quota.is_shunned && quota.n_left == 0));
}

/// Updates the candidates after tasks of an application were given out: fewer cores of the node are left for
/// it.
fn note_on_node(choices: &mut [JobCandidate<'_>], application: &str, n_cores: u64) {
    for choice in choices.iter_mut().filter(|choice| choice.job.request.application == application) {
        let Some(left) = choice.node_left.map(|left| left.saturating_sub(n_cores)) else { continue };
        choice.node_left = Some(left).filter(|left| *left >= choice.job.request.needs.resources.cores.into());
        if choice.node_left.is_none() {
            choice.candidate.standing = Standing::Beyond;
        }
    }
}
