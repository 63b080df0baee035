//! The capacity of a pilot: the resources that it has free, now or soon, and how much may be prefetched to
//! it.

use crate::{
    engine::{
        dispatch::candidate::JobCandidate,
        interface::settings::Settings,
        live::Live,
        state::{
            durable::Durable,
            job::Job,
            learned::{applications::Applications, statistics::Statistics},
            pilot::Pilot,
        },
    },
    ids::{JobId, PilotId},
    policy::{
        Policies,
        bundling::{
            Bundling, Situation,
            by_estimate::{BinPacking, Taker},
        },
    },
    resources::Resources,
    time::{Span, Time},
};

/// The share of its prefetch that a pilot must have used up before it is sent more. With a bundle for each
/// report the pilot would report each task by itself, because an answer that brings tasks is not held back.
const REFILL: f64 = 0.25;

/// The resources that a pilot has free at this moment.
pub(in crate::engine) struct PilotCapacity<'a> {
    settings: &'a Settings,
    pub(in crate::engine) policies: Policies,
    pub(in crate::engine) pilot: &'a Pilot,
    facts: &'a Applications,
    now: Time,
    /// Jobs of which nothing is prefetched.
    careful: Vec<JobId>,
    /// Resources that its leases leave.
    free: Resources,
    /// Resources that are free once the short tasks that it holds have ended: all but those of long tasks.
    free_soon: Resources,
    /// The share of its prefetch that short tasks make up; at 1 the prefetch is full.
    load: f64,
    /// Longest expected runtime of the tasks that it holds; without bound if one is unknown.
    longest: Span,
}

impl<'a> PilotCapacity<'a> {
    pub(in crate::engine) fn new(
        settings: &'a Settings,
        durable: &'a Durable,
        live: &Live,
        now: Time,
        id: PilotId,
    ) -> Option<PilotCapacity<'a>> {
        let pilot = durable.pilots().get(&id)?;
        let state = live.pilots.get(&id)?;
        let capacity = &pilot.node.capacity;
        let (mut free, free_soon) = (capacity.clone(), capacity.clone());
        free.take(&state.used, 1);
        let policies = durable.policies(settings.policies);
        let (facts, careful) = (durable.facts(), live.careful_with(id));
        let (load, longest) = (0.0, Span::ZERO);
        let mut offer =
            PilotCapacity { settings, policies, pilot, facts, now, careful, free, free_soon, load, longest };
        let held = || {
            let leases = state.leases.iter();
            leases.filter_map(|(id, tasks)| Some((*id, durable.jobs().get(id)?, tasks.len())))
        };
        for (id, job, n_tasks) in held() {
            if offer.depth((id, job)) == 1 {
                offer.free_soon.take(&job.request.needs.resources, n_tasks);
            }
        }
        for (id, job, n_tasks) in held() {
            offer.load += offer.share((id, job), n_tasks);
            offer.longest = offer.longest.max(known_duration(job).unwrap_or(Span(u64::MAX)));
        }
        Some(offer)
    }

    /// Returns the resources that its leases leave free.
    pub(in crate::engine) fn free(&self) -> &Resources {
        &self.free
    }

    /// Returns whether no task of any job fits: each needs a core, and none is free now or soon.
    pub(in crate::engine) fn is_full(&self) -> bool {
        self.free.cores == 0 && self.free_soon.cores == 0
    }

    pub(in crate::engine) fn now(&self) -> Time {
        self.now
    }

    /// Returns the time by which all tasks that it holds are expected to have ended.
    pub(in crate::engine) fn all_ended_at(&self) -> Time {
        self.now + self.longest
    }

    /// Returns whether a task of the job that starts now would end before the pilot's walltime does.
    pub(in crate::engine) fn outlives(&self, job: &Job) -> bool {
        outlives(self.settings, self.pilot, job, self.now)
    }

    /// Returns whether a task of the job could run there if no other task did.
    pub(in crate::engine) fn could_run(&self, job: &Job) -> bool {
        job.request.needs.resources.fits_in(&self.pilot.node.capacity) && self.outlives(job)
    }

    /// Returns how many tasks of the job could be sent: the tasks that can start now, and those to prefetch.
    pub(in crate::engine) fn n_room(&self, choice: &JobCandidate<'_>) -> u64 {
        let n_startable = self.n_startable(choice.job);
        if choice.depth == 1 || self.load > 1.0 - REFILL {
            return n_startable;
        }
        let n_slots = choice.job.request.needs.resources.how_often_in(&self.free_soon);
        let n_all = n_slots.saturating_mul(choice.depth) as f64;
        n_startable.max((n_all * (1.0 - self.load.min(1.0))).floor() as u64)
    }

    fn n_startable(&self, job: &Job) -> u64 {
        job.request.needs.resources.how_often_in(&self.free)
    }

    /// Returns which tasks a task of the job must wait for if the pilot gets nothing else; `None`: it can
    /// start now.
    pub(in crate::engine) fn waits_for(&self, job: &Job) -> Option<Wait> {
        let needs = &job.request.needs.resources;
        match (needs.fits_in(&self.free), needs.fits_in(&self.free_soon)) {
            (true, _) => None,
            (false, true) => Some(Wait::Brief),
            (false, false) => Some(Wait::Long),
        }
    }

    /// Returns how many of the job's ready tasks to send; not 0 where there is room.
    pub(in crate::engine) fn bundle_size(&self, choice: &JobCandidate<'_>) -> u64 {
        let situation = Situation {
            n_startable: self.n_startable(choice.job),
            n_room: self.n_room(choice),
            n_ready: choice.n_ready,
            n_pilots: choice.n_fitting,
            n_brief: choice.n_slots.saturating_mul(self.n_brief(choice.job)),
        };
        self.policies.bundling.size(situation)
    }

    /// Returns how to pack the job's tasks by their estimates into at most `n_bins_max` bins; `None`: tasks
    /// are only counted.
    pub(in crate::engine) fn taker(&self, choice: &JobCandidate<'_>, n_bins_max: u64) -> Option<Taker> {
        let is_packed =
            self.policies.bundling == Bundling::BinPacking && !self.is_careful(choice.candidate.job);
        choice.job.request.estimates.as_ref().filter(|_| is_packed)?;
        let n_bins = match self.n_startable(choice.job) {
            0 => self.n_room(choice).min(choice.n_slots),
            n_startable => n_startable,
        };
        Some(Taker {
            // A pilot may report any number of cores.
            n_bins: u32::try_from(n_bins.min(n_bins_max).min(choice.n_ready)).unwrap_or(u32::MAX),
            rate: choice.job.rate().unwrap_or(0.0),
            // Makes a bin of the shortest tasks last for the prefetch time.
            transfer_s: self.settings.prefetch.as_secs_f64() / BinPacking::default().c2,
            environment_s: self.prepared_s(choice),
            n_sharing: choice.n_fitting.saturating_mul(choice.n_slots),
        })
    }

    /// Returns the seconds until a program of the job's application has started on the pilot's platform; 0 if
    /// unknown.
    fn prepared_s(&self, choice: &JobCandidate<'_>) -> f64 {
        let known = self.facts.known(self.pilot.platform, &choice.job.request.application).measured;
        known.and_then(Statistics::prepared).map_or(0.0, |span| span.as_secs_f64())
    }

    /// Returns the most tasks of a packed bundle: tasks with estimates near 0 would otherwise all fit into
    /// one bin.
    pub(in crate::engine) fn n_packed_most(&self, choice: &JobCandidate<'_>, n_bins: u32) -> u64 {
        let n_bins = u64::from(n_bins);
        let fair_share = choice.n_ready.div_ceil(choice.n_fitting.max(1));
        n_bins.saturating_mul(self.settings.prefetch_tasks_max.max(1)).min(fair_share.max(n_bins))
    }

    /// Returns how many of the job's tasks a slot runs one after another within `bundle_min`, a time too
    /// short to be divided.
    fn n_brief(&self, job: &Job) -> u64 {
        let known = job.totals.wall_mean().zip(job.totals.wall_deviation());
        known.map_or(0, |(mean, sd)| self.settings.bundle_min.0 / (mean + sd.times(3)).0.max(1))
    }

    pub(in crate::engine) fn give(&mut self, choice: &JobCandidate<'_>, n_tasks: u64) {
        let needs = &choice.job.request.needs.resources;
        self.free.take(needs, n_tasks);
        if choice.depth == 1 {
            self.free_soon.take(needs, n_tasks);
        }
        self.load += self.share((choice.candidate.job, choice.job), n_tasks);
    }

    /// Returns whether one of the job's tasks that wait, or that are here, may cause the loss of pilots. The
    /// pilot then gets no more tasks than it can run, so that a loss shows which task it was.
    pub(in crate::engine) fn is_careful(&self, job: JobId) -> bool {
        self.careful.binary_search(&job).is_ok()
    }

    /// Returns how many tasks of the job a slot of this pilot should have, the running one included; 1 for
    /// long tasks.
    pub(in crate::engine) fn depth(&self, (id, job): (JobId, &Job)) -> u64 {
        if self.is_careful(id) {
            return job.depth_least();
        }
        let mean = job.attempt_mean();
        let depth = job.depth(self.settings);
        match (mean, self.pilot.walltime_end()) {
            (Some(mean), Some(end)) => depth.min(end.since(self.now).0 / mean.0.max(1)).max(1),
            _ => depth,
        }
    }

    /// Returns the share of the pilot's prefetch that `n_tasks` tasks of a job make up; 0 for long tasks.
    fn share(&self, (id, job): (JobId, &Job), n_tasks: u64) -> f64 {
        let depth = self.depth((id, job));
        if depth == 1 {
            return 0.0;
        }
        let n_slots = job.request.needs.resources.how_often_in(&self.free_soon);
        n_tasks as f64 / n_slots.max(1).saturating_mul(depth) as f64
    }
}

/// Returns whether a task of the job that starts now would end before the pilot's walltime does.
pub(in crate::engine) fn outlives(settings: &Settings, pilot: &Pilot, job: &Job, now: Time) -> bool {
    let Some(end) = pilot.walltime_end() else { return true };
    let life = end.since(pilot.born_at);
    now + needed(job, life) + settings.walltime_margin <= end
}

/// The tasks that keep a task from starting on a pilot that is large enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Wait {
    /// Tasks that end within the prefetch time.
    Brief,
    /// Long tasks.
    Long,
}

/// Returns how long a task of the job is expected to run: the mean so far and three standard deviations, but
/// no more than its time limit; zero if neither is known.
pub(in crate::engine) fn expected_duration(job: &Job) -> Span {
    known_duration(job).unwrap_or(Span::ZERO)
}

/// Returns the walltime that a task of the job should find left on a pilot that lives for `life`: its
/// expected runtime, but no more than half of `life` once runtimes of the job are measured. Longer remaining
/// walltimes are not available there, and some tasks are shorter: see [`Pilot::had_its_chance`].
pub(in crate::engine) fn needed(job: &Job, life: Span) -> Span {
    let expected = expected_duration(job);
    match job.totals.wall_mean() {
        Some(_) => expected.min(Span(life.0 / 2)),
        None => expected,
    }
}

fn known_duration(job: &Job) -> Option<Span> {
    let measured =
        job.totals.wall_mean().zip(job.totals.wall_deviation()).map(|(mean, sd)| mean + sd.times(3));
    match (job.request.needs.time_limit, measured) {
        (Some(limit), Some(measured)) => Some(limit.min(measured)),
        (limit, measured) => limit.or(measured),
    }
}
