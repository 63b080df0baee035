//! Profiling runs: a node of a platform runs chosen jobs only, with a set number of tasks of each at a time.
//! They measure quickly how long an application takes alone and beside co-runners (paper 000, section 4:
//! OneCore and combinations of co-runners).
//!
//! The jobs of a run are ordinary jobs, except that only the run gives out their tasks and no other job uses
//! their node. A restart of the manager ends the runs; the remaining tasks of their jobs run where there is
//! room.

use std::collections::BTreeMap;

use crate::{
    engine::{
        dispatch::{candidate::has_room_for_templates, capacity::PilotCapacity},
        interface::{
            RequestId,
            job_request::JobRequest,
            platform::platform_spec::{PlatformMode, PlatformSpec},
            refusal::Refusal,
        },
        live::{Live, platform::limits, profiling::ProfilingRun, timers::Timer},
        turn::Turn,
    },
    ids::{JobId, PilotId, PlatformId},
    pull::Bundle,
    time::{Span, Time},
};

/// How long the node waits for the next job of a run after all its jobs have ended.
const STAYS: Span = Span::from_secs(2);

impl Live {
    /// Returns the profiling run that has the pilot's node.
    pub fn profiling_at(&self, id: PilotId) -> Option<&ProfilingRun> {
        self.profiling.values().find(|run| run.pilot == Some(id))
    }

    /// Takes the pilot's node, which is gone, from its profiling run.
    pub fn lose_node(&mut self, id: PilotId) {
        self.profiling.values_mut().filter(|run| run.pilot == Some(id)).for_each(|run| run.pilot = None);
    }
}

impl Turn<'_> {
    /// Submits a job for the platform's profiling run, the present run or a new one.
    pub(in crate::engine) fn submit_profiling(
        &mut self,
        request: RequestId,
        job: JobRequest,
        (platform, n_slots): (String, u64),
    ) {
        let Some((id, spec)) = self.durable.platforms().iter().find(|(_, spec)| spec.name == platform) else {
            return self.refuse(request, Refusal::NoPlatform(platform));
        };
        let (id, user) = (*id, job.user.clone());
        let (life, limit) = (spec.walltime, job.needs.time_limit.unwrap_or(Span::ZERO));
        let is_too_long = life.is_some_and(|life| limit + self.settings.walltime_margin > life);
        if is_too_long || !job.needs.resources.fits_in(&spec.capacity) {
            return self.refuse(request, Refusal::NoRoom(platform));
        }
        match self.durable.mode(id) {
            PlatformMode::Active => {}
            PlatformMode::Detached => return self.refuse(request, Refusal::Detached(platform)),
            PlatformMode::Paused | PlatformMode::Draining => {
                return self.refuse(request, Refusal::Rests(platform));
            }
        }
        let others = self.live.profiling.get(&id).filter(|run| run.user != user && run.goes_on());
        if let Some(user) = others.map(|run| run.user.clone()) {
            return self.refuse(request, Refusal::Profiles { platform, user });
        }
        let Some(job) = self.submit_job(request, job, Some(id)) else { return };
        let new =
            ProfilingRun { user: user.clone(), slots: BTreeMap::new(), pilot: None, ended_at: self.now };
        let run = self.live.profiling.entry(id).or_insert(new);
        run.user = user;
        run.slots.insert(job, n_slots);
        self.find_node(id);
        let node = self.live.profiling.get(&id).and_then(ProfilingRun::pilot);
        self.live.pilots_to_notify.extend(node);
    }

    /// Gives the run a node if it has none: of the platform's pilots that could run its jobs, the one that is
    /// free first.
    pub(in crate::engine) fn find_node(&mut self, platform: PlatformId) {
        let Some(run) = self.live.profiling.get(&platform) else { return };
        let has_room = |id: PilotId| {
            let offer = PilotCapacity::new(self.settings, self.durable, self.live, self.now, id);
            let mut jobs = run.slots.keys().filter_map(|job| self.durable.jobs().get(job));
            offer.is_some_and(|offer| jobs.all(|job| offer.could_run(job)))
        };
        let is_there = |id: PilotId| {
            let state = self.live.pilots.get(&id);
            let is_leaving = self.durable.pilots().get(&id).is_none_or(|pilot| pilot.drain.is_some());
            state.is_some_and(|state| !state.takes_part && !is_leaving)
                && (has_room(id) || state.is_some_and(|state| !state.leases.is_empty()))
        };
        if run.pilot.is_some_and(is_there) {
            return;
        }
        let here = |id: &PilotId| self.durable.pilots().get(id).is_some_and(|p| p.platform == platform);
        let pilots = self
            .live
            .pilots
            .iter()
            .filter(|(id, state)| state.takes_part && state.is_synced && here(id) && has_room(**id));
        let free_at = |id: PilotId| {
            let offer = PilotCapacity::new(self.settings, self.durable, self.live, self.now, id);
            offer.map_or(Time(u64::MAX), |offer| offer.all_ended_at())
        };
        let found = pilots.min_by_key(|(id, state)| (free_at(**id), state.n_leased())).map(|(id, _)| *id);
        if let Some(before) = run.pilot {
            self.give_node_back(before);
        }
        if let Some(id) = found {
            self.live.delist(self.durable, id);
            self.live.keep_nothing(id);
            self.live.pilots_to_notify.insert(id);
        }
        if let Some(run) = self.live.profiling.get_mut(&platform).filter(|run| run.pilot != found) {
            run.pilot = found;
            self.want_plan();
        }
    }

    /// Returns the node to general use.
    fn give_node_back(&mut self, id: PilotId) {
        if self.durable.pilots().get(&id).is_some_and(|pilot| pilot.drain.is_none()) {
            self.live.enlist(self.durable, id);
            self.live.pilots_to_notify.insert(id);
        }
    }

    /// Leases tasks of the profiling run to a pilot that has the run's node; `None` for any other pilot.
    pub(in crate::engine) fn fill_profiling(&mut self, id: PilotId) -> Option<Vec<Bundle>> {
        if self.live.profiling.is_empty() {
            return None;
        }
        let platform = self.durable.pilots().get(&id)?.platform;
        self.find_node(platform);
        let run = self.live.profiling.get(&platform).filter(|run| run.pilot == Some(id))?;
        let state = self.live.pilots.get(&id)?;
        // Tasks that the pilot had before end first.
        let is_free = state.leases.keys().all(|job| run.slots.contains_key(job));
        if !is_free || !state.is_hungry || !state.is_synced || !self.gives_out() {
            return Some(Vec::new());
        }
        let mut bundles = Vec::new();
        for (job, n_slots) in run.slots.clone() {
            if has_room_for_templates(self.settings, self.durable, self.live, id, &bundles) {
                bundles.extend(self.take_for_profiling(id, job, n_slots));
            }
        }
        Some(bundles)
    }

    /// Takes tasks of a job until its application's slots on the node are full: one job may follow another
    /// without a gap.
    fn take_for_profiling(&mut self, id: PilotId, job_id: JobId, n_slots: u64) -> Option<Bundle> {
        let job = self.durable.jobs().get(&job_id).filter(|job| !job.is_paused)?;
        let offer = PilotCapacity::new(self.settings, self.durable, self.live, self.now, id)?;
        let state = self.live.pilots.get(&id)?;
        let is_same = |other: &JobId| {
            self.durable
                .jobs()
                .get(other)
                .is_some_and(|other| other.request.application == job.request.application)
        };
        let n_held: u64 =
            state.leases.iter().filter(|(other, _)| is_same(other)).map(|(_, tasks)| tasks.len()).sum();
        let n_fitting = job.request.needs.resources.how_often_in(offer.free());
        let n_allowed = limits::n_allowed(self.durable, self.live, offer.pilot.platform, job);
        let n = n_slots.saturating_sub(n_held).min(n_fitting).min(n_allowed);
        let excluded = self.live.not_for(id, job_id);
        if n == 0 || !offer.outlives(job) {
            return None;
        }
        let tasks = self.live.take_ready(job_id, n, &excluded);
        if tasks.is_empty() {
            return None;
        }
        self.live.lease(self.settings, self.durable, id, job_id, &tasks);
        self.live.note_turn(id, job_id);
        Some(Bundle { job: job_id, tried: job.tried(&tasks), tasks, is_given: false })
    }

    /// Notes that a job has ended. Its run ends too, unless another job comes soon.
    pub(in crate::engine) fn note_profiled(&mut self, id: JobId) {
        let Some(platform) = self.live.jobs.get(&id).and_then(|leases| leases.profiled_on) else {
            return;
        };
        if let Some(run) = self.live.profiling.get_mut(&platform) {
            run.ended_at = self.now;
            run.slots.remove(&id);
            self.live.timers.insert((self.now + STAYS, Timer::Profiling(platform)));
        }
    }

    /// Ends a run for which no further job has come: its node returns to general use.
    pub(in crate::engine) fn end_profiling(&mut self, platform: PlatformId) {
        let Some(run) = self.live.profiling.get(&platform) else { return };
        if run.goes_on() || self.now.since(run.ended_at) < STAYS {
            return;
        }
        self.dissolve_profiling(platform);
    }

    /// Removes the platform's run: its node returns to general use, and the remaining tasks of its jobs run
    /// where there is room.
    pub(in crate::engine) fn dissolve_profiling(&mut self, platform: PlatformId) {
        let Some(run) = self.live.profiling.remove(&platform) else { return };
        for id in run.slots.keys() {
            let Some(leases) = self.live.jobs.get_mut(id) else { continue };
            leases.profiled_on = None;
            let ready = leases.ready.clone();
            self.live.add_ready(*id, &ready);
        }
        run.pilot.into_iter().for_each(|id| self.give_node_back(id));
        self.stir_platforms();
    }

    /// Returns whether the platform's run goes on and has no node, because none of the pilots there is
    /// suitable.
    pub(in crate::engine) fn wants_node(&self, id: PlatformId) -> bool {
        self.live.profiling.get(&id).is_some_and(|run| run.goes_on() && run.pilot.is_none())
    }

    /// Returns the least number of pilots that the platform is to keep.
    pub(in crate::engine) fn n_pilots_min(&self, id: PlatformId, spec: &PlatformSpec) -> usize {
        let has_node = self.live.profiling.get(&id).is_some_and(|run| run.goes_on() && run.pilot.is_some());
        (spec.n_pilots_min as usize).max(usize::from(has_node))
    }
}
