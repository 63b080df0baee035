//! How many vCPUs a core of a platform stands for (paper 003, r_v/p): what its law says of what was seen in an
//! interval, carried out by its pilots, which offer as many slots, or by the cloud, whose hosts have as many vCPUs.
//!
//! Non-preemptive: where there are fewer, what runs goes on, and nothing begins until enough has ended.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    Turn,
    durable::Durable,
    interface::{Effect, Notice, PlatformMode},
    record::{FailedAttempt, JobResult, Record},
    volatile::{Timer, Volatile},
    wanted::N_JOBS_LOOKED_AT,
};
use crate::{
    ids::{JobId, PilotId, PlatformId},
    policy::scaling::{Interval, Scaler, Seen, Settings, Why},
    pull::PilotCommand,
    resources::Resources,
    results::Blame,
    time::{Span, Time},
};

/// Changes that are remembered, of each platform.
const N_CHANGES_MAX: usize = 100;
/// After too many failed, none are added for so many intervals.
const N_HELD: u64 = 4;
/// Of the time of a core that all of its slots compete for no task can have more than its part, so a goal of all of it
/// would never be missed: tasks that compute would share cores for ever.
const CPU_GOAL: f64 = 0.9;
/// A cloud that does not answer is asked again after that to put back what was there.
const RESTORE_AGAIN: Span = Span::from_secs(60);

/// How a platform's cores may stand for more vCPUs than one each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScalingSpec {
    /// Who sees to it.
    pub by: ScalingWay,
    /// vCPUs of a core at most, in thousandths (paper 003's C).
    pub ratio_max: Ratio,
    /// The share of attempts that may fail, in thousandths (its epsilon).
    pub errors_max_permille: u32,
    /// How often it is decided.
    pub interval: Span,
}

/// Who sees to it that a core stands for more vCPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ScalingWay {
    /// Pilots: they offer as many slots.
    Slots,
    /// The cloud: its hosts have as many, so that more servers fit on them.
    Placement,
}

/// vCPUs of a core in thousandths, so that records say it exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Ratio(pub u32);

impl Ratio {
    /// As many as there are cores.
    pub const ONE: Ratio = Ratio(1000);

    /// The nearest to a number; 1 at least.
    pub fn of(number: f64) -> Ratio {
        Ratio((number * 1000.0).round().min(f64::from(u32::MAX)) as u32).max(Ratio::ONE)
    }

    /// As a number.
    pub fn number(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// What so many cores stand for, rounded; 1 at least, where there is one.
    pub fn of_cores(self, n_cores: u32) -> u32 {
        let n = (u64::from(n_cores) * u64::from(self.0) + 500) / 1000;
        u32::try_from(n).unwrap_or(u32::MAX).max(n_cores.min(1))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// A host of a cloud, as its Placement knows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Provider {
    /// Placement's id.
    pub id: String,
    /// The host's name.
    pub name: String,
    /// How many vCPUs it has a core, as Placement writes it.
    pub ratio: String,
}

impl Provider {
    fn has(&self, ratio: Ratio) -> bool {
        self.ratio.parse().is_ok_and(|number: f64| (number - ratio.number()).abs() < 0.001)
    }
}

/// A host as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundProvider {
    /// What it had.
    pub provider: Provider,
    /// Whether it has now what was asked for: it was known before.
    pub is_set: bool,
}

/// Why a cloud's hosts could not be given other numbers of vCPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScaleTrouble {
    /// They cannot, as long as nobody changes something.
    Refused(String),
    /// Nobody knows.
    Unknown(String),
}

/// A platform's vCPUs a core have changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScalingChange {
    /// When.
    pub at: Time,
    /// vCPUs of a core before, in thousandths.
    pub before: Ratio,
    /// And since.
    pub after: Ratio,
    /// How it is carried out.
    pub by: ScalingWay,
    /// The reason.
    pub why: Why,
    /// What was seen in the interval before.
    pub seen: Seen,
    /// Cores of the platform then.
    pub n_cores: u64,
}

impl ScalingChange {
    /// Why, with the numbers.
    pub fn told(&self) -> String {
        let Seen { n_ended, n_failed, n_queued, cpu, wall } = self.seen;
        let share = (wall > Span::ZERO).then(|| cpu.as_secs_f64() / wall.as_secs_f64());
        let busy =
            share.map_or_else(String::new, |share| format!(", its CPUs {:.0} % of the time", share * 100.0));
        format!(
            "{} ({n_ended} attempts ended, {n_failed} of them failed{busy}; tasks for {n_queued} slots, {} cores)",
            self.why, self.n_cores
        )
    }
}

/// How it stands with a platform's vCPUs.
#[derive(Clone, PartialEq, Debug)]
pub struct Scaled {
    /// vCPUs of a core.
    pub ratio: Ratio,
    /// How that is carried out.
    pub by: ScalingWay,
    /// The last changes, oldest first.
    pub changes: Vec<ScalingChange>,
    /// What the hosts had that were changed, and what they are to have in the end.
    pub former: Vec<Provider>,
}

impl Default for Scaled {
    fn default() -> Scaled {
        Scaled { ratio: Ratio::ONE, by: ScalingWay::Slots, changes: Vec::new(), former: Vec::new() }
    }
}

impl Scaled {
    pub(super) fn note(&mut self, change: &ScalingChange) {
        (self.ratio, self.by) = (change.after, change.by);
        if self.changes.len() >= N_CHANGES_MAX {
            self.changes.remove(0);
        }
        self.changes.push(change.clone());
    }

    /// vCPUs that pilots offer for each that they have.
    fn of_pilots(&self) -> Ratio {
        if self.by == ScalingWay::Slots { self.ratio } else { Ratio::ONE }
    }
}

/// What is known of a platform's vCPUs in this life of the manager.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// What pilots have reported since the last decision.
    seen: Seen,
    /// Of the time of vCPUs in it: that which tasks wanted to compute in while others had the CPUs.
    starved: Span,
    /// When the next is due.
    due_at: Option<Time>,
    /// When too many attempts failed the last time.
    failed_at: Option<Time>,
    /// Whether the cloud has been asked for something and has not answered: it is asked for one thing at a time.
    is_asked: bool,
    /// What the cloud's hosts were given last, by their ids.
    set: BTreeMap<String, Ratio>,
    /// Whether the cloud's hosts cannot be given anything: pilots do it, until something else is wanted.
    falls_back: bool,
    /// What is wrong, in words.
    pub(super) trouble: Option<String>,
}

impl Durable {
    /// What a pilot of the platform offers.
    pub fn offered(&self, id: PlatformId) -> Resources {
        let capacity = self.platforms().get(&id).map(|spec| spec.capacity.clone()).unwrap_or_default();
        self.with_slots(id, capacity)
    }

    /// What a node of the platform offers that has this.
    pub(super) fn with_slots(&self, id: PlatformId, mut capacity: Resources) -> Resources {
        let ratio = self.scaled(id).map_or(Ratio::ONE, Scaled::of_pilots);
        let n_cores = if capacity.widest > 0 { capacity.widest } else { capacity.cores };
        let is_scaled = ratio != Ratio::ONE;
        (capacity.cores, capacity.widest) = (ratio.of_cores(n_cores), if is_scaled { n_cores } else { 0 });
        capacity
    }
}

impl Turn<'_> {
    /// What a report says of the pilot's platform.
    pub(super) fn note_seen(&mut self, pilot: PilotId, results: &[JobResult]) {
        let Some(platform) = self.durable.pilots().get(&pilot).map(|pilot| pilot.platform) else { return };
        if self.scaling_of(platform).is_none() {
            return;
        }
        for result in results {
            let cores = self.durable.jobs().get(&result.job).map_or(1, |j| j.request.needs.resources.cores);
            // What the platform took away says nothing of how full it is.
            let counts =
                |failure: &&FailedAttempt| !matches!(failure.kind.blame(), Blame::Nobody | Blame::Ended);
            let n_failed = result.failures.iter().filter(counts).count() as u64;
            let n_ended = result.totals.n.saturating_add(n_failed);
            let (cpu, wall) =
                (Span(result.totals.cpu_us), Span(result.totals.wall_us).times(u64::from(cores)));
            self.note_more(platform, Seen { n_ended, n_failed, n_queued: 0, cpu, wall });
        }
    }

    /// So many attempts, or servers, have failed that report nothing.
    pub(super) fn note_lost(&mut self, platform: PlatformId, n_failed: u64) {
        if self.scaling_of(platform).is_some() {
            self.note_more(platform, Seen { n_ended: n_failed, n_failed, ..Seen::default() });
        }
    }

    /// For so long tasks there wanted to compute and could not.
    pub(super) fn note_starved_there(&mut self, platform: PlatformId, starved: Span) {
        if self.scaling_of(platform).is_some()
            && let Some(state) = self.volatile.platforms.get_mut(&platform)
        {
            state.watch.starved = state.watch.starved + starved;
        }
    }

    fn note_more(&mut self, platform: PlatformId, seen: Seen) {
        if let Some(state) = self.volatile.platforms.get_mut(&platform) {
            state.watch.seen += seen;
        }
    }

    /// Something else is wanted: what did not work before may work now.
    pub(super) fn forget_troubles(&mut self, id: PlatformId) {
        if let Some(state) = self.volatile.platforms.get_mut(&id) {
            let Watch { due_at, is_asked, .. } = state.watch;
            state.watch = Watch { due_at, is_asked, ..Watch::default() };
        }
    }

    /// What the operator wants of a platform that is there.
    fn scaling_of(&self, id: PlatformId) -> Option<ScalingSpec> {
        let spec = self.durable.platforms().get(&id)?.scaling;
        spec.filter(|_| self.durable.mode(id) != PlatformMode::Detached)
    }

    /// Sees to it that the platform's vCPUs are looked at, if there is something to look at.
    pub(super) fn arm_scaling(&mut self, id: PlatformId) {
        let scaled = self.durable.scaled(id);
        let is_changed = scaled.is_some_and(|held| held.ratio != Ratio::ONE || !held.former.is_empty());
        let has_pilots = self.durable.census(id).n_there > 0;
        let wait = match self.scaling_of(id) {
            Some(spec) if has_pilots || is_changed => spec.interval,
            None if is_changed => Span::ZERO,
            _ => return,
        };
        self.volatile.arm_scaling(id, self.now + wait);
    }

    /// A pilot whose slots may be other than it knows must know it.
    pub(super) fn tell_slots(&mut self, id: PilotId) {
        let Some(pilot) = self.durable.pilots().get(&id) else { return };
        let is_of_slots = |change: &ScalingChange| change.by == ScalingWay::Slots;
        if self.durable.scaled(pilot.platform).is_some_and(|held| held.changes.iter().any(is_of_slots)) {
            let cores = pilot.node.capacity.cores;
            self.command(id, PilotCommand::Offer { cores });
        }
    }

    /// The end of an interval: the law says what it has been like, and what follows.
    pub(super) fn scale(&mut self, id: PlatformId) {
        let Some(state) = self.volatile.platforms.get_mut(&id) else { return };
        state.watch.due_at = None;
        let mut seen = std::mem::take(&mut state.watch.seen);
        let starved = std::mem::take(&mut state.watch.starved);
        // CPUs that tasks waited for are busy, though not with them.
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
            (self.durable.scaled(id).cloned().unwrap_or_default(), &self.volatile.platforms[&id]);
        let by = if state.watch.falls_back { ScalingWay::Slots } else { spec.by };
        seen.n_queued = self.demand(id);
        let n_vcpus = (self.durable.census(id).n_live as u64)
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
            && let Some(state) = self.volatile.platforms.get_mut(&id)
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

    /// Cores that tasks take or could take there: those that its pilots hold and those that are ready.
    fn demand(&self, id: PlatformId) -> u64 {
        let cores_of = |job: &JobId, n_tasks: u64| {
            let cores = self.durable.jobs().get(job).map_or(0, |job| job.request.needs.resources.cores);
            n_tasks.saturating_mul(cores.into())
        };
        let there = self.volatile.held_on.range((id, JobId(0))..=(id, JobId(u64::MAX)));
        let held = there.map(|((_, job), n_tasks)| cores_of(job, *n_tasks));
        let offered = self.durable.offered(id);
        let fits = |job: &JobId| {
            let job = self.durable.jobs().get(job).filter(|job| !job.is_paused);
            job.is_some_and(|job| job.request.needs.resources.fits_in(&offered))
        };
        let ready = self.volatile.ready.iter().take(N_JOBS_LOOKED_AT).filter(|job| fits(job));
        let ready = ready.filter_map(|job| Some(cores_of(job, self.volatile.jobs.get(job)?.ready.len())));
        held.chain(ready).fold(0, u64::saturating_add)
    }

    /// Nobody wants other numbers of vCPUs any more.
    fn unscale(&mut self, id: PlatformId) {
        let Some(scaled) = self.durable.scaled(id).cloned() else { return };
        if scaled.ratio != Ratio::ONE {
            let (at, before, by) = (self.now, scaled.ratio, scaled.by);
            let (after, why, seen) = (Ratio::ONE, Why::Fixed, Seen::default());
            self.set_ratio(id, ScalingChange { at, before, after, by, why, seen, n_cores: 0 });
        }
        self.settle_hosts(id);
        if !scaled.former.is_empty() {
            self.volatile.arm_scaling(id, self.now + RESTORE_AGAIN);
        }
    }

    /// Asks for what the cloud's hosts are to have now, unless it has not answered yet: then it is asked again.
    fn settle_hosts(&mut self, id: PlatformId) {
        let wanted = self.wanted_of_hosts(id);
        let scaled = self.durable.scaled(id).cloned().unwrap_or_default();
        let Some(state) = self.volatile.platforms.get_mut(&id) else { return };
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

    /// vCPUs a core that the cloud's hosts are to have; `None`: what they had before.
    fn wanted_of_hosts(&self, id: PlatformId) -> Option<Ratio> {
        let is_of_hosts = self.scaling_of(id).is_some_and(|spec| spec.by == ScalingWay::Placement);
        let falls_back = self.volatile.platforms.get(&id).is_some_and(|state| state.watch.falls_back);
        let ratio = self.durable.scaled(id).map_or(Ratio::ONE, |held| held.ratio);
        (is_of_hosts && !falls_back).then_some(ratio)
    }

    fn set_ratio(&mut self, id: PlatformId, change: ScalingChange) {
        self.record(Record::PlatformScaled { platform: id, change: change.clone() });
        let pilots: Vec<PilotId> = self.volatile.pilots.keys().copied().collect();
        for pilot in pilots {
            let Some(held) = self.durable.pilots().get(&pilot).filter(|held| held.platform == id) else {
                continue;
            };
            let cores = held.node.capacity.cores;
            if self.volatile.resize_pilot(self.durable, pilot) {
                self.command(pilot, PilotCommand::Offer { cores });
            }
        }
        if change.after > change.before {
            self.volatile.note_raised(id);
        }
        let platform = self.durable.platform_name(id);
        self.notify(Notice::PlatformScaled { platform, change });
        self.stir_platforms();
        self.volatile.stir_all();
    }

    /// What a cloud's hosts had when they were to be given so many vCPUs a core, or theirs again.
    pub(super) fn ratios_answered(
        &mut self,
        id: PlatformId,
        asked: Option<Ratio>,
        result: Result<Vec<FoundProvider>, ScaleTrouble>,
    ) {
        let Some(state) = self.volatile.platforms.get_mut(&id) else { return };
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
                // Some may have been given it.
                state.watch.set.clear();
                state.watch.trouble = Some(why);
            }
        }
    }

    fn hosts_restored(&mut self, id: PlatformId, found: Vec<FoundProvider>) {
        let ids: Vec<String> = found.into_iter().map(|found| found.provider.id).collect();
        if let Some(state) = self.volatile.platforms.get_mut(&id) {
            state.watch.set.retain(|id, _| !ids.contains(id));
        }
        self.record(Record::RatiosRestored { platform: id, ids, at: self.now });
    }

    fn hosts_found(&mut self, id: PlatformId, asked: Ratio, found: Vec<FoundProvider>) {
        let is_wanted = self.wanted_of_hosts(id).is_some();
        let known: Vec<Provider> = self.durable.scaled(id).map_or_else(Vec::new, |held| held.former.clone());
        let Some(state) = self.volatile.platforms.get_mut(&id) else { return };
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
            // Whoever gave it that wants it so.
            self.record(Record::RatiosRestored { platform: id, ids: vec![host], at: self.now });
            return self.fall_back(id, format!("host {name} has {ratio} again: its configuration says so"));
        }
        let has_new = !new.is_empty() && is_wanted;
        if has_new {
            self.record(Record::RatiosFound { platform: id, providers: new, at: self.now });
        }
        // Some are to be changed now that they are known, or none any more.
        if has_new || !is_wanted {
            self.settle_hosts(id);
        }
    }

    /// The cloud's hosts are left alone; from the next interval on pilots do it.
    fn fall_back(&mut self, id: PlatformId, why: String) {
        let platform = self.durable.platform_name(id);
        if let Some(state) = self.volatile.platforms.get_mut(&id) {
            state.watch.set.clear();
            state.watch.falls_back = true;
            state.watch.trouble = Some(why.clone());
        }
        self.notify(Notice::ScalesItself { platform, why });
        self.settle_hosts(id);
    }
}

impl Volatile {
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
