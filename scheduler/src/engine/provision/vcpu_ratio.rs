//! The vCPU ratio: how many vCPUs a core of a platform stands for (paper 003, r_v/p). The policy sets it by
//! the measurements of an interval. Either the pilots apply it, by offering as many slots, or the cloud does,
//! by giving its hosts as many vCPUs.
//!
//! Non-preemptive: after a decrease, running tasks go on, and no task starts until enough have ended.

use crate::{
    engine::{
        interface::{
            effect::Effect,
            notice::Notice,
            platform::{
                platform_spec::PlatformMode,
                scaling::{
                    FoundProvider, Provider, Ratio, ScaleTrouble, ScalingChange, ScalingSpec, ScalingWay,
                },
            },
        },
        live::{Live, platform::vcpu_watch::Watch, timers::Timer},
        provision::demand::N_JOBS_LOOKED_AT,
        record::{FailedAttempt, JobResult, Record},
        turn::Turn,
    },
    ids::{JobId, PilotId, PlatformId},
    policy::scaling::{Interval, Scaler, Seen, Settings, Why},
    pull::PilotCommand,
    results::Blame,
    time::{Span, Time},
};

/// After an interval with too many failures, no vCPUs are added for this many intervals.
const N_HELD: u64 = 4;

/// Where tasks compete for all slots of a core, each gets only its part of the core's time, so a goal of all
/// of the time would never be missed: tasks that compute would share cores for ever.
const CPU_GOAL: f64 = 0.9;

/// How soon a cloud that does not answer is asked again to restore the former ratios.
const RESTORE_AGAIN: Span = Span::from_secs(60);

impl Turn<'_> {
    /// Counts a report's results for the ratio of the pilot's platform.
    pub(in crate::engine) fn note_seen(&mut self, pilot: PilotId, results: &[JobResult]) {
        let Some(platform) = self.durable.pilots().get(&pilot).map(|pilot| pilot.platform) else { return };
        if self.scaling_of(platform).is_none() {
            return;
        }
        for result in results {
            let cores = self.durable.jobs().get(&result.job).map_or(1, |j| j.request.needs.resources.cores);
            // Attempts that the platform ended say nothing about how full it is.
            let counts =
                |failure: &&FailedAttempt| !matches!(failure.kind.blame(), Blame::Nobody | Blame::Ended);
            let n_failed = result.failures.iter().filter(counts).count() as u64;
            let n_ended = result.totals.n.saturating_add(n_failed);
            let (cpu, wall) =
                (Span(result.totals.cpu_us), Span(result.totals.wall_us).times(u64::from(cores)));
            self.note_more(platform, Seen { n_ended, n_failed, n_queued: 0, cpu, wall });
        }
    }

    /// Counts failed attempts, or failed servers, for which there is no report.
    pub(in crate::engine) fn note_lost(&mut self, platform: PlatformId, n_failed: u64) {
        if self.scaling_of(platform).is_some() {
            self.note_more(platform, Seen { n_ended: n_failed, n_failed, ..Seen::default() });
        }
    }

    /// Adds the time for which tasks there wanted to compute and could not.
    pub(in crate::engine) fn note_starved_there(&mut self, platform: PlatformId, starved: Span) {
        if self.scaling_of(platform).is_some()
            && let Some(state) = self.live.platforms.get_mut(&platform)
        {
            state.watch.starved = state.watch.starved + starved;
        }
    }

    fn note_more(&mut self, platform: PlatformId, seen: Seen) {
        if let Some(state) = self.live.platforms.get_mut(&platform) {
            state.watch.seen += seen;
        }
    }

    /// Forgets earlier problems after the scaling settings have changed: a way that failed before may work
    /// now.
    pub(in crate::engine) fn forget_troubles(&mut self, id: PlatformId) {
        if let Some(state) = self.live.platforms.get_mut(&id) {
            let Watch { due_at, is_asked, .. } = state.watch;
            state.watch = Watch { due_at, is_asked, ..Watch::default() };
        }
    }

    /// Returns the operator's scaling settings of a platform that is not detached.
    fn scaling_of(&self, id: PlatformId) -> Option<ScalingSpec> {
        let spec = self.durable.platforms().get(&id)?.scaling;
        spec.filter(|_| self.durable.mode(id) != PlatformMode::Detached)
    }

    /// Sets the timer of the platform's vCPU ratio, if there is anything to look at.
    pub(in crate::engine) fn arm_scaling(&mut self, id: PlatformId) {
        let scaled = self.durable.scaled(id);
        let is_changed = scaled.is_some_and(|held| held.ratio != Ratio::ONE || !held.former.is_empty());
        let has_pilots = self.durable.allocation_counts(id).n_there > 0;
        let wait = match self.scaling_of(id) {
            Some(spec) if has_pilots || is_changed => spec.interval,
            None if is_changed => Span::ZERO,
            _ => return,
        };
        self.live.arm_scaling(id, self.now + wait);
    }

    /// Sends the pilot its number of slots, if the number may differ from the one that the pilot knows.
    pub(in crate::engine) fn tell_slots(&mut self, id: PilotId) {
        let Some(pilot) = self.durable.pilots().get(&id) else { return };
        let is_of_slots = |change: &ScalingChange| change.by == ScalingWay::Slots;
        if self.durable.scaled(pilot.platform).is_some_and(|held| held.changes.iter().any(is_of_slots)) {
            let cores = pilot.node.capacity.cores;
            self.command(id, PilotCommand::Offer { cores });
        }
    }

    /// Ends an interval: the policy judges the measurements and decides on the next ratio.
    pub(in crate::engine) fn scale(&mut self, id: PlatformId) {
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        state.watch.due_at = None;
        let mut seen = std::mem::take(&mut state.watch.seen);
        let starved = std::mem::take(&mut state.watch.starved);
        // CPUs for which tasks waited are busy, though not with these tasks.
        let wall = Span(seen.wall.0.saturating_sub(starved.0));
        seen.wall = wall.max(seen.cpu.min(seen.wall));
        match self.scaling_of(id) {
            Some(spec) => {
                self.decide(id, &spec, seen);
                self.arm_scaling(id);
            }
            None => self.unscale(id),
        }
    }

    fn decide(&mut self, id: PlatformId, spec: &ScalingSpec, mut seen: Seen) {
        let (scaled, state) =
            (self.durable.scaled(id).cloned().unwrap_or_default(), &self.live.platforms[&id]);
        let by = if state.watch.falls_back { ScalingWay::Slots } else { spec.by };
        seen.n_queued = self.demand(id);
        let n_vcpus = (self.durable.allocation_counts(id).n_live as u64)
            .saturating_mul(self.durable.platforms()[&id].capacity.cores.into());
        let n_cores = match by {
            ScalingWay::Slots => n_vcpus,
            ScalingWay::Placement => (n_vcpus as f64 / scaled.ratio.number()).round() as u64,
        };
        let settings = Settings {
            errors_max: f64::from(spec.errors_max_permille) / 1000.0,
            ratio_max: spec.ratio_max.number(),
            hold: spec.interval.times(N_HELD),
            cpu_goal: CPU_GOAL,
            ..Settings::default()
        };
        let known = scaled.changes.iter().rev().find(|change| change.why == Why::Errors);
        let failed_at = state.watch.failed_at.or(known.map(|change| change.at));
        let mut scaler = Scaler::resumed(self.policies().scaling, settings, scaled.ratio.number(), failed_at);
        let decision = scaler.decide(&Interval { at: self.now, n_cores }, &seen);
        if decision.why == Why::Errors
            && let Some(state) = self.live.platforms.get_mut(&id)
        {
            state.watch.failed_at = Some(self.now);
        }
        let (before, after) = (scaled.ratio, Ratio::of(decision.after));
        let is_new = !scaled.changes.is_empty() || after != Ratio::ONE;
        if after != before || (by != scaled.by && is_new) {
            let why = decision.why;
            self.set_ratio(id, ScalingChange { at: self.now, before, after, by, why, seen, n_cores });
        }
        self.settle_hosts(id);
    }

    /// Returns the cores that tasks take or could take there: the tasks that its pilots hold, and the ready
    /// ones.
    fn demand(&self, id: PlatformId) -> u64 {
        let cores_of = |job: &JobId, n_tasks: u64| {
            let cores = self.durable.jobs().get(job).map_or(0, |job| job.request.needs.resources.cores);
            n_tasks.saturating_mul(cores.into())
        };
        let there = self.live.held_on.range((id, JobId(0))..=(id, JobId(u64::MAX)));
        let held = there.map(|((_, job), n_tasks)| cores_of(job, *n_tasks));
        let offered = self.durable.offered(id);
        let fits = |job: &JobId| {
            let job = self.durable.jobs().get(job).filter(|job| !job.is_paused);
            job.is_some_and(|job| job.request.needs.resources.fits_in(&offered))
        };
        let ready = self.live.ready.iter().take(N_JOBS_LOOKED_AT).filter(|job| fits(job));
        let ready = ready.filter_map(|job| Some(cores_of(job, self.live.jobs.get(job)?.ready.len())));
        held.chain(ready).fold(0, u64::saturating_add)
    }

    /// Restores the ratio of one vCPU per core after the scaling settings were removed.
    fn unscale(&mut self, id: PlatformId) {
        let Some(scaled) = self.durable.scaled(id).cloned() else { return };
        if scaled.ratio != Ratio::ONE {
            let (at, before, by) = (self.now, scaled.ratio, scaled.by);
            let (after, why, seen) = (Ratio::ONE, Why::Fixed, Seen::default());
            self.set_ratio(id, ScalingChange { at, before, after, by, why, seen, n_cores: 0 });
        }
        self.settle_hosts(id);
        if !scaled.former.is_empty() {
            self.live.arm_scaling(id, self.now + RESTORE_AGAIN);
        }
    }

    /// Asks the cloud to give its hosts the wanted ratio, unless it has not answered the last request: then
    /// it is asked later.
    fn settle_hosts(&mut self, id: PlatformId) {
        let wanted = self.wanted_of_hosts(id);
        let scaled = self.durable.scaled(id).cloned().unwrap_or_default();
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        if state.watch.is_asked || (wanted.is_none() && scaled.former.is_empty()) {
            return;
        }
        if !state.is_attached {
            let n = scaled.former.len();
            state.watch.trouble = Some(format!(
                "{n} of them are to have what they had before: attach the platform again, and take its `scaling` out then"
            ));
            return;
        }
        state.watch.is_asked = true;
        self.step.effects.push(Effect::Scale { platform: id, ratio: wanted, former: scaled.former });
    }

    /// Returns the vCPUs per core that the cloud's hosts are to have; `None`: their former ratios.
    fn wanted_of_hosts(&self, id: PlatformId) -> Option<Ratio> {
        let is_of_hosts = self.scaling_of(id).is_some_and(|spec| spec.by == ScalingWay::Placement);
        let falls_back = self.live.platforms.get(&id).is_some_and(|state| state.watch.falls_back);
        let ratio = self.durable.scaled(id).map_or(Ratio::ONE, |held| held.ratio);
        (is_of_hosts && !falls_back).then_some(ratio)
    }

    fn set_ratio(&mut self, id: PlatformId, change: ScalingChange) {
        self.record(Record::PlatformScaled { platform: id, change: change.clone() });
        let pilots: Vec<PilotId> = self.live.pilots.keys().copied().collect();
        for pilot in pilots {
            let Some(held) = self.durable.pilots().get(&pilot).filter(|held| held.platform == id) else {
                continue;
            };
            let cores = held.node.capacity.cores;
            if self.live.resize_pilot(self.durable, pilot) {
                self.command(pilot, PilotCommand::Offer { cores });
            }
        }
        if change.after > change.before {
            self.live.note_raised(id);
        }
        let platform = self.durable.platform_name(id);
        self.notify(Notice::PlatformScaled { platform, change });
        self.stir_platforms();
        self.live.stir_all();
    }

    /// Handles the cloud's answer: the ratios that its hosts had when they were to get the ratio `asked`, or
    /// their former ratios (`None`).
    pub(in crate::engine) fn ratios_answered(
        &mut self,
        id: PlatformId,
        asked: Option<Ratio>,
        result: Result<Vec<FoundProvider>, ScaleTrouble>,
    ) {
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        state.watch.is_asked = false;
        match (result, asked) {
            (Ok(found), asked) => {
                state.watch.trouble.take_if(|_| !state.watch.falls_back);
                match asked {
                    Some(asked) => self.hosts_found(id, asked, found),
                    None => self.hosts_restored(id, found),
                }
            }
            (Err(ScaleTrouble::Refused(why)), Some(_)) => self.fall_back(id, why),
            (Err(ScaleTrouble::Refused(why) | ScaleTrouble::Unknown(why)), _) => {
                // Some hosts may have been changed.
                state.watch.set.clear();
                state.watch.trouble = Some(why);
            }
        }
    }

    fn hosts_restored(&mut self, id: PlatformId, found: Vec<FoundProvider>) {
        let ids: Vec<String> = found.into_iter().map(|found| found.provider.id).collect();
        if let Some(state) = self.live.platforms.get_mut(&id) {
            state.watch.set.retain(|id, _| !ids.contains(id));
        }
        self.record(Record::RatiosRestored { platform: id, ids, at: self.now });
    }

    fn hosts_found(&mut self, id: PlatformId, asked: Ratio, found: Vec<FoundProvider>) {
        let is_wanted = self.wanted_of_hosts(id).is_some();
        let known: Vec<Provider> = self.durable.scaled(id).map_or_else(Vec::new, |held| held.former.clone());
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        let mut new = Vec::new();
        let mut taken_back = None;
        for FoundProvider { provider, is_set } in &found {
            let before = is_set.then(|| state.watch.set.insert(provider.id.clone(), asked)).flatten();
            if before.is_some_and(|before| !provider.has(before)) {
                taken_back = Some(provider.clone());
            }
            if !is_set && !known.iter().any(|held| held.id == provider.id) {
                new.push(provider.clone());
            }
        }
        if let Some(Provider { id: host, name, ratio }) = taken_back {
            // The cloud's own configuration has set the ratio back, so it stays.
            self.record(Record::RatiosRestored { platform: id, ids: vec![host], at: self.now });
            return self.fall_back(id, format!("host {name} has {ratio} again: its configuration says so"));
        }
        let has_new = !new.is_empty() && is_wanted;
        if has_new {
            self.record(Record::RatiosFound { platform: id, providers: new, at: self.now });
        }
        // Newly found hosts get the ratio now, or all hosts get their former ratios.
        if has_new || !is_wanted {
            self.settle_hosts(id);
        }
    }

    /// Leaves the cloud's hosts alone; from the next interval on, the pilots apply the ratio.
    fn fall_back(&mut self, id: PlatformId, why: String) {
        let platform = self.durable.platform_name(id);
        if let Some(state) = self.live.platforms.get_mut(&id) {
            state.watch.set.clear();
            state.watch.falls_back = true;
            state.watch.trouble = Some(why.clone());
        }
        self.notify(Notice::ScalesItself { platform, why });
        self.settle_hosts(id);
    }
}

impl Live {
    fn arm_scaling(&mut self, id: PlatformId, at: Time) {
        let Some(state) = self.platforms.get_mut(&id) else { return };
        if state.watch.due_at.is_none_or(|due_at| at < due_at) {
            if let Some(due_at) = state.watch.due_at.replace(at) {
                self.timers.remove(&(due_at, Timer::Scaling(id)));
            }
            self.timers.insert((at, Timer::Scaling(id)));
        }
    }
}
