//! Provisioning: how many allocations are wanted on each platform, and the fate of each. The intent is
//! recorded first, then the request is made, then its outcome is recorded; the next listing by tag resolves
//! an unknown outcome.

pub mod demand;
pub mod placement;
pub mod platform_failures;
pub mod queue_load;
pub mod queue_reasons;
pub mod short_lived;
pub mod unlisted;
pub mod vcpu_ratio;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        interface::{
            RequestId,
            answer::Answer,
            effect::Effect,
            platform::{
                allocation::{KnownAllocation, ListedAllocation, SubmitOutcome},
                platform_spec::{PlatformMode, PlatformSpec},
            },
        },
        live::{
            platform::{
                limits::{self, LAST_WORDS, last_words},
                platform_state::{PlatformState, Unlisted},
            },
            timers::Timer,
        },
        provision::{
            demand::{n_hypothetical, n_pilots},
            platform_failures::Failed,
        },
        record::{DrainCause, Record, end_cause::EndCause, provision_reason::ProvisionReason},
        state::allocation::{Allocation, AllocationState, Origin},
        turn::Turn,
    },
    ids::{AllocationId, PilotId, PlatformId},
    pull::PilotCommand,
    time::{Span, Time},
};

/// The reason for the end of an allocation when its platform gives no other.
pub(in crate::engine) const GONE: &str = "its platform says that it has ended";

/// The reason for the end of an allocation that was never requested from its platform.
const WITHDRAWN: &str = "it was not wanted any more before its platform was asked for it";

/// How often a platform is asked for a listing although no allocation of ours should be there: a submission
/// may have taken effect after the wait for it was over, or the store may be an older copy.
const STRAYS_INTERVAL: Span = Span::from_secs(600);

/// The least time before a platform is asked again for an allocation for which it had no room.
const NO_ROOM_PAUSE: Span = Span::from_secs(10);

/// How soon a platform is asked for a listing again after a listing has failed.
const STRAYS_AGAIN: Span = Span::from_secs(60);

/// A pilot that was answered pulls again within this time, while it is there.
const BETWEEN_PULLS: Span = Span::from_secs(1);

/// Pilots come back within this time after the manager has started: they try again at least every 20 seconds.
const COME_BACK: Span = Span::from_secs(25);

/// The least number of failed listings in a row that shows that a platform was away.
const N_UNLISTED_FOR_OUTAGE: u32 = 2;

impl Turn<'_> {
    pub(in crate::engine) fn attach_platform(&mut self, request: RequestId, spec: PlatformSpec) {
        let known = self.durable.platforms().iter().find(|(_, held)| held.name == spec.name);
        let is_same = known.is_some_and(|(_, held)| *held == spec);
        let is_moved = known.is_some_and(|(_, held)| Origin::of(held) != Origin::of(&spec));
        let next = self.durable.platforms().last_key_value().map_or(1, |(last, _)| last.0 + 1);
        let id = known.map_or(PlatformId(next), |(id, _)| *id);
        if known.is_some_and(|(_, held)| held.scaling != spec.scaling) {
            self.forget_troubles(id);
        }
        if !is_same {
            self.record(Record::PlatformAttached { platform: id, spec, at: self.now });
        }
        if self.durable.mode(id) == PlatformMode::Detached {
            self.record(Record::PlatformModeSet { platform: id, mode: PlatformMode::Active, at: self.now });
        }
        let is_new = !std::mem::replace(&mut self.live.platforms.entry(id).or_default().is_attached, true);
        if is_new || is_moved {
            self.tell_left_behind(id);
        }
        self.live.arm_platform(id, self.now);
        self.arm_scaling(id);
        self.answer(request, Answer::Attached(id));
    }

    /// Looks at all platforms in this step, after a change that may call for more pilots.
    pub(in crate::engine) fn stir_platforms(&mut self) {
        self.want_plan();
        self.live.placed = None;
        let ids: Vec<PlatformId> = self.live.platforms.keys().copied().collect();
        for id in ids {
            self.live.arm_platform(id, self.now);
        }
    }

    /// Handles a platform's timer: asks for its listing and load, drains idle pilots, withdraws unneeded
    /// allocations and requests more.
    pub(in crate::engine) fn look_at_platform(&mut self, id: PlatformId) {
        let Some(spec) = self.durable.platforms().get(&id).cloned() else { return };
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        state.timer_at = None;
        if !state.is_attached {
            return;
        }
        self.list_if_due(id, &spec);
        self.ask_load(id, &spec);
        if self.live.shutdown.is_none() {
            self.drain_idle(id, &spec);
            self.withdraw_unneeded(id, &spec);
            self.ask_for_more(id, &spec);
        }
        if self.durable.allocation_counts(id).n_there > 0 {
            self.live.arm_platform(id, self.now + spec.poll_interval);
        }
    }

    /// Asks for a listing while an allocation is or may be there. Where submissions may take effect late,
    /// also asks once after the manager's start, and rarely after that: only a listing finds batch jobs that
    /// no manager knows of.
    fn list_if_due(&mut self, id: PlatformId, spec: &PlatformSpec) {
        let is_used = self.durable.allocation_counts(id).n_there > 0;
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        let interval = match (is_used, spec.submits_late, &state.unlisted) {
            (true, ..) => spec.poll_interval,
            (false, true, None) => STRAYS_INTERVAL,
            (false, true, Some(_)) => STRAYS_AGAIN,
            (false, false, _) => return,
        };
        if state.listed_at.is_none_or(|at| self.now.since(at) >= interval) {
            state.listed_at = Some(self.now);
            let there = self.durable.allocations_there(id);
            let known = there.filter_map(|(_, held)| {
                let (batch_id, tag) = (held.batch_id.clone()?, held.tag.clone());
                let known_at = held.submitted_at.unwrap_or(held.intended_at);
                Some(KnownAllocation { batch_id, tag, asked_for_at: held.intended_at, known_at })
            });
            let known = known.collect();
            self.step.effects.push(Effect::List { platform: id, known });
        }
        let again_at = state.listed_at.unwrap_or(self.now) + interval;
        self.live.arm_platform(id, again_at);
    }

    /// Asks for a listing in this step, because an allocation may have ended.
    pub(in crate::engine) fn list_soon(&mut self, id: PlatformId) {
        if let Some(state) = self.live.platforms.get_mut(&id) {
            state.listed_at = None;
        }
        self.live.arm_platform(id, self.now);
    }

    /// Drains pilots that have been idle for too long, the longest idle first, down to the minimum. A node is
    /// only given back with its whole allocation, so no pilot leaves before all pilots of the allocation may.
    /// Pilots that get nothing because tasks are withheld after a restart are not idle.
    fn drain_idle(&mut self, id: PlatformId, spec: &PlatformSpec) {
        if self.live.is_in_grace() {
            return;
        }
        let mut n_spare =
            self.durable.allocation_counts(id).n_live.saturating_sub(self.n_pilots_min(id, spec));
        let longest_idle = self.live.idle.range((id, Time(0), PilotId(0))..);
        let is_long = |since: Time| self.now.since(since) >= spec.idle_timeout;
        let idle = longest_idle.take_while(|(platform, since, _)| *platform == id && is_long(*since));
        let idle: Vec<PilotId> = idle.map(|(_, _, pilot)| *pilot).collect();
        let is_idle: BTreeSet<&PilotId> = idle.iter().collect();
        let (mut seen, mut leaving) = (BTreeSet::new(), Vec::new());
        for pilot in &idle {
            let Some(allocation) = self.durable.pilots().get(pilot).map(|held| held.allocation) else {
                continue;
            };
            let Some(held) = self.durable.allocations().get(&allocation) else { continue };
            let (mates, n_nodes) = (self.durable.live_pilots(held), held.n_nodes_there as usize);
            // The nodes of an allocation that was left behind do not count.
            let n_nodes = if held.is_left_behind { 0 } else { n_nodes };
            if n_nodes <= n_spare
                && seen.insert(allocation)
                && mates.iter().all(|mate| is_idle.contains(mate))
            {
                n_spare -= n_nodes;
                leaving.extend(mates);
            }
        }
        for pilot in leaving {
            self.drain_pilot(pilot, DrainCause::Idle(spec.idle_timeout));
        }
    }

    /// Cancels waiting allocations for which there has been no work for as long as a pilot may be idle: their
    /// pilots would start only to leave, and core-hours are reserved for them. The newest go first.
    fn withdraw_unneeded(&mut self, id: PlatformId, spec: &PlatformSpec) {
        let (n_live, n_waiting) = n_pilots(self.settings, self.durable, self.live, (id, self.now));
        let limit = n_waiting.saturating_add(1);
        let n_wanted = n_hypothetical(self.settings, self.durable, self.live, (id, spec), limit);
        let n_min = self.n_pilots_min(id, spec) + usize::from(self.wants_node(id));
        let n_above_minimum = n_live.saturating_sub(n_min);
        let mut n_spare = n_waiting.saturating_sub(n_wanted).min(n_above_minimum);
        let is_known = !self.live.is_in_grace();
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        if n_spare == 0 || !is_known {
            state.unneeded_since = None;
            return;
        }
        let since = *state.unneeded_since.get_or_insert(self.now);
        if self.now.since(since) < spec.idle_timeout {
            return self.live.arm_platform(id, since + spec.idle_timeout);
        }
        let waiting: Vec<(AllocationId, usize)> = self
            .durable
            .allocations_there(id)
            .filter(|(_, held)| held.state == AllocationState::Submitted && held.is_unused())
            .map(|(id, held)| (id, held.n_nodes_there as usize))
            .collect();
        let is_spare = |(_, n_nodes): &&(AllocationId, usize)| {
            let is_spare = *n_nodes <= n_spare;
            n_spare -= if is_spare { *n_nodes } else { 0 };
            is_spare
        };
        let unneeded: Vec<AllocationId> = waiting.iter().rev().filter(is_spare).map(|(id, _)| *id).collect();
        if !unneeded.is_empty() {
            self.cancel_allocations(id, &unneeded);
        }
    }

    /// Requests as many allocations as would find work, and the allocations that are always wanted. After a
    /// restart, much of the work that seems to wait is held by pilots that have not reported yet: until they
    /// have, only the latter are requested.
    fn ask_for_more(&mut self, id: PlatformId, spec: &PlatformSpec) {
        let is_known = !self.live.is_in_grace();
        let blocked_until = self.live.platforms.get(&id).map_or(Time(0), |state| state.blocked_until);
        if blocked_until > self.now {
            if let Some(policy) = self.policies().placement.filter(|_| is_known) {
                // Other platforms may have to do the work that was meant for this one.
                self.n_placed(policy, id);
            }
            return self.live.arm_platform(id, blocked_until);
        }
        let (n_live, n_waiting) = n_pilots(self.settings, self.durable, self.live, (id, self.now));
        let room = limits::room(self.settings, self.durable, self.live, (id, spec), self.now);
        let missing = (spec.n_pilots_min as usize).saturating_sub(n_live);
        let missing = missing.max(usize::from(self.wants_node(id) && n_waiting == 0));
        let n_nodes = (spec.n_nodes as usize).max(1);
        let n_pilots_max = n_waiting.saturating_add(room.n.saturating_mul(n_nodes));
        let wanted = n_hypothetical(self.settings, self.durable, self.live, (id, spec), n_pilots_max);
        let wanted = wanted.saturating_sub(n_waiting).div_ceil(n_nodes);
        let wanted = match self.policies().placement {
            _ if !is_known => 0,
            // No more than would find work: the others would be withdrawn and requested again.
            Some(policy) => self.n_placed(policy, id).min(wanted),
            None => wanted,
        };
        let is_failing = |state: &PlatformState| state.is_failing() || state.full.is_some();
        let is_failing = self.live.platforms.get(&id).is_some_and(is_failing);
        let n_max = if is_failing { room.n.min(1) } else { room.n };
        let n_max = if self.live.is_on_trial(self.durable, id) { 0 } else { n_max };
        let asks_for_one_only = self.ends_pilots(id);
        let n_max = if asks_for_one_only { n_max.min(usize::from(n_live == 0)) } else { n_max };
        let wanted = wanted.max(missing.div_ceil(n_nodes));
        let because = ProvisionReason {
            n_wanted: wanted as u64,
            load: self.live.load(id, self.now),
            compared: self.live.placed.as_ref().and_then(|(_, compared)| compared.clone()),
            walltime: None,
        };
        for _ in 0..wanted.min(n_max) {
            self.intend_allocation(id, because.clone());
        }
        let rest = room.shorter.filter(|_| is_known && !is_failing && !asks_for_one_only);
        if let Some(walltime) = rest.filter(|walltime| self.is_wanted_shorter(id, spec, *walltime)) {
            let because = ProvisionReason { n_wanted: 1, walltime: Some(walltime), ..because };
            self.intend_allocation(id, because);
        }
        let room = limits::room(self.settings, self.durable, self.live, (id, spec), self.now);
        if let Some(at) = room.more_at {
            self.live.arm_platform(id, at);
        }
    }

    /// Returns whether a pilot with this shorter walltime would find work beside the pilots that are to come.
    fn is_wanted_shorter(&self, id: PlatformId, spec: &PlatformSpec, walltime: Span) -> bool {
        let (_, n_waiting) = n_pilots(self.settings, self.durable, self.live, (id, self.now));
        let shorter = PlatformSpec { walltime: Some(walltime), ..spec.clone() };
        let limit = n_waiting.saturating_add(1);
        n_hypothetical(self.settings, self.durable, self.live, (id, &shorter), limit) > n_waiting
    }

    fn intend_allocation(&mut self, platform: PlatformId, because: ProvisionReason) {
        let last = self.durable.allocations().last_key_value().map_or(0, |(last, _)| last.0);
        let next = last.max(self.settings.last_allocation) + 1;
        let (allocation, tag) = (AllocationId(next), format!("{}{next}", self.settings.tag_prefix()));
        let whole = self.durable.platforms().get(&platform).and_then(|spec| spec.walltime);
        let walltime = because.walltime.or(whole);
        let (because, at) = (Some(Box::new(because)), self.now);
        self.record(Record::AllocationIntended { allocation, platform, tag: tag.clone(), because, at });
        self.arm_scaling(platform);
        self.step.effects.push(Effect::Submit { platform, allocation, tag, walltime });
    }

    pub(in crate::engine) fn allocation_answered(&mut self, id: AllocationId, outcome: SubmitOutcome) {
        let Some(allocation) = self.durable.allocations().get(&id).filter(|a| a.is_live()) else {
            return self.cancel_unwanted(id, outcome);
        };
        let platform = allocation.platform;
        match outcome {
            SubmitOutcome::Accepted(batch_id) => {
                if let Some(state) = self.live.platforms.get_mut(&platform) {
                    state.full = None;
                }
                let (allocation, was_listed) = (id, false);
                self.record(Record::AllocationSubmitted { allocation, batch_id, was_listed, at: self.now });
                if self.winding_up(platform).is_some() && self.durable.allocations()[&id].is_unused() {
                    self.cancel_allocations(platform, &[id]);
                }
            }
            SubmitOutcome::Refused(why) => {
                self.allocation_ends(id, why.clone(), None, false);
                self.note_failure_of(id, Failed::Submission, why, Span::ZERO);
            }
            SubmitOutcome::NoRoom(why) => {
                self.allocation_ends(id, why.clone(), None, false);
                self.note_full(platform, why);
            }
            SubmitOutcome::Withdrawn => self.allocation_ends(id, WITHDRAWN.into(), None, false),
            SubmitOutcome::Unknown(what) => {
                self.record(Record::AllocationUnknown { allocation: id, what: what.clone(), at: self.now });
                self.note_failure_of(id, Failed::Submission, what, Span::ZERO);
            }
        }
        self.live.arm_platform(platform, self.now);
    }

    /// Handles the outcome of a submission whose allocation has ended, or was cancelled, in the meantime: an
    /// accepted batch job is cancelled.
    fn cancel_unwanted(&mut self, id: AllocationId, outcome: SubmitOutcome) {
        let Some(held) = self.durable.allocations().get(&id) else { return };
        let (platform, is_awaited) = (held.platform, held.may_be_there() && held.batch_id.is_none());
        match outcome {
            SubmitOutcome::Accepted(batch_id) if is_awaited => {
                let (allocation, was_listed) = (id, false);
                self.record(Record::AllocationSubmitted { allocation, batch_id, was_listed, at: self.now });
                self.cancel_allocations(platform, &[id]);
            }
            SubmitOutcome::Accepted(batch_id) => {
                self.step.effects.push(Effect::Cancel { platform, batch_ids: vec![batch_id] });
            }
            SubmitOutcome::Refused(why) | SubmitOutcome::NoRoom(why) if is_awaited => {
                self.allocation_ends(id, why, None, false);
            }
            SubmitOutcome::Withdrawn if is_awaited => {
                self.allocation_ends(id, WITHDRAWN.into(), None, false);
            }
            SubmitOutcome::Refused(_)
            | SubmitOutcome::NoRoom(_)
            | SubmitOutcome::Withdrawn
            | SubmitOutcome::Unknown(_) => {}
        }
    }

    /// Notes that a platform's connection waits for a person; once it no longer waits, the platform is asked
    /// at once.
    pub(in crate::engine) fn platform_waits(&mut self, id: PlatformId, why: Option<String>) {
        let now = self.now;
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        let was_waiting = std::mem::replace(&mut state.waits_for_person, why).is_some();
        if was_waiting && state.waits_for_person.is_none() {
            (state.n_failures, state.blocked_until, state.ends_jobs) = (0, now, false);
            (state.last_failure, state.unlisted, state.listed_at) = (None, None, None);
            self.live.placed = None;
            self.live.arm_platform(id, now);
        }
    }

    /// Notes whether a listing failed. The first success after several failures ends the pause of a platform
    /// that failed in the meantime: its other operations may work again, too. Occasional failures of listings
    /// say nothing about other failures.
    fn note_listing(&mut self, id: PlatformId, failure: Option<&String>) {
        let now = self.now;
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        let before = state.unlisted.take();
        if let Some(what) = failure {
            let (n, since) = before.map_or((0, now), |before| (before.n, before.since));
            state.unlisted = Some(Unlisted { what: what.clone(), n: n.saturating_add(1), since });
            return;
        }
        let was_away =
            before.is_some_and(|before| before.n >= N_UNLISTED_FOR_OUTAGE && state.failed_at >= before.since);
        if was_away && state.full.is_none() {
            state.blocked_until = state.blocked_until.min(now);
            self.live.arm_platform(id, now);
        }
    }

    /// Handles a listing by tag: resolves unknown outcomes, ends allocations that are gone, and cancels
    /// unwanted ones.
    pub(in crate::engine) fn platform_listed(
        &mut self,
        id: PlatformId,
        asked_at: Time,
        result: Result<Vec<ListedAllocation>, String>,
    ) {
        self.note_listing(id, result.as_ref().err());
        let Ok(listed) = result else { return self.live.arm_platform(id, self.now + STRAYS_AGAIN) };
        self.note_troubles(&listed);
        self.note_queue_reasons(id, &listed);
        self.note_suspended(&listed);
        let mut unwanted = Vec::new();
        for entry in listed.iter().filter(|entry| !entry.is_ended) {
            if self.finds_again(id, entry) {
                continue;
            }
            let known = self.durable.allocation_of(&entry.tag);
            match known.map(|(id, a)| (id, a.is_live(), a.state.clone())) {
                Some((allocation, true, AllocationState::Submitted)) => {
                    self.note_nodes(allocation, entry.n_nodes, asked_at);
                    if entry.is_running {
                        self.await_pilot(allocation, asked_at);
                    } else if !entry.is_suspended {
                        self.note_queued(allocation, asked_at);
                    }
                }
                // Its pilot ends by itself, or the cancellation is under way: give it a moment.
                Some((_, _, AllocationState::Leaving(_, at))) if at + self.listing_lag(id) > asked_at => {}
                Some((allocation, true, _)) => {
                    let (batch_id, was_listed) = (entry.batch_id.clone(), true);
                    self.record(Record::AllocationSubmitted {
                        allocation,
                        batch_id,
                        was_listed,
                        at: self.now,
                    });
                    // Another platform of the same account may have requested it.
                    let held = &self.durable.allocations()[&allocation];
                    let (platform, is_unused) = (held.platform, held.is_unused());
                    if self.winding_up(platform).is_some() && is_unused {
                        self.cancel_allocations(platform, &[allocation]);
                    }
                }
                Some((_, false, _)) | None => unwanted.push(entry.batch_id.clone()),
            }
        }
        let tags = |is_ended: bool| -> BTreeSet<&str> {
            let entries = listed.iter().filter(|entry| entry.is_ended == is_ended);
            entries.map(|entry| entry.tag.as_str()).collect()
        };
        let (shown, told) = (tags(false), tags(true));
        self.note_shown(&shown, asked_at);
        self.note_accepting(id);
        let ends: BTreeMap<&str, &str> = listed
            .iter()
            .filter(|entry| entry.is_ended)
            .filter_map(|entry| Some((entry.tag.as_str(), entry.reason.as_deref()?)))
            .collect();
        let there: Vec<AllocationId> = self.durable.allocations_there(id).map(|(id, _)| id).collect();
        for allocation in there {
            let held = &self.durable.allocations()[&allocation];
            let is_told = told.contains(held.tag.as_str());
            let is_there = shown.contains(held.tag.as_str());
            let is_missing = !is_there && self.is_missing(allocation, asked_at, is_told);
            // A batch job may be renamed, or lose the process that watches it: its pilot knows better.
            let speaks = is_missing
                && self.durable.live_pilots(held).iter().any(|pilot| self.may_speak(id, *pilot, asked_at));
            match speaks {
                true => _ = self.live.unlisted.insert(allocation),
                false => _ = self.live.unlisted.remove(&allocation),
            }
            if is_missing && !speaks {
                let end = ends.get(held.tag.as_str()).copied();
                if is_told {
                    self.allocation_is_gone(allocation, end, false);
                } else if self.is_missed_again(allocation) {
                    unwanted.extend(self.to_be_cancelled(allocation));
                    self.allocation_is_gone(allocation, end, true);
                }
            } else {
                self.live.missed.remove(&allocation);
            }
        }
        self.cancel_missed(id, unwanted);
    }

    /// Returns whether the pilot has spoken since `at` or just before, waits for an answer, or has not had
    /// the time to come back since the manager started. Listings of this host show all processes, so no pilot
    /// is waited for there.
    fn may_speak(&self, platform: PlatformId, pilot: PilotId, at: Time) -> bool {
        let Some(state) = self.live.pilots.get(&pilot) else { return false };
        let is_elsewhere = self.is_elsewhere(platform);
        let is_early = self.live.is_in_grace() && self.now < self.live.started_at + COME_BACK;
        let may_come_back = is_elsewhere && is_early && !state.is_synced;
        state.parked.is_some() || state.last_heard + BETWEEN_PULLS > at || may_come_back
    }

    /// Notes errors that the platform reports for allocations; they are shown when an allocation comes to
    /// nothing.
    fn note_troubles(&mut self, listed: &[ListedAllocation]) {
        for entry in listed {
            let held = self.durable.allocation_of(&entry.tag).filter(|(_, held)| held.may_be_there());
            if let (Some(words), Some((allocation, _))) = (&entry.trouble, held) {
                self.live.allocation_errors.insert(allocation, (words.clone(), entry.lacks_room));
            }
        }
    }

    /// Waits for the pilot of a running allocation, and releases the allocation if none comes within the join
    /// limit.
    fn await_pilot(&mut self, id: AllocationId, asked_at: Time) {
        let held = &self.durable.allocations()[&id];
        if !held.is_unused() {
            return self.await_return(id, asked_at);
        }
        let (platform, batch_ids) = (held.platform, held.batch_id.clone().into_iter().collect());
        let since = *self.live.running_since.entry(id).or_insert(asked_at);
        let limit = self.settings.join_limit;
        if asked_at.since(since) < limit {
            return;
        }
        self.live.running_since.remove(&id);
        let why = format!("it had run for {limit}, and no pilot came");
        self.record(Record::AllocationReleased { allocation: id, why: why.clone(), at: self.now });
        self.step.effects.push(Effect::Cancel { platform, batch_ids });
        self.note_failure_of(id, Failed::Job, why, Span::ZERO);
    }

    /// Waits for the pilots of an allocation that were all lost while it was suspended: once it runs again,
    /// they have the usual heartbeat limit to speak.
    fn await_return(&mut self, id: AllocationId, asked_at: Time) {
        let held = &self.durable.allocations()[&id];
        let more_come = held.n_waiting() > 0 && self.durable.is_array(held.platform);
        if more_come || !self.durable.live_pilots(held).is_empty() {
            self.live.running_since.remove(&id);
            return;
        }
        let (platform, batch_ids) = (held.platform, held.batch_id.clone().into_iter().collect());
        let since = *self.live.running_since.entry(id).or_insert(asked_at);
        let limit = self.settings.heartbeat_limit;
        if asked_at.since(since) < limit {
            return;
        }
        self.live.running_since.remove(&id);
        let why = format!("it runs again after it was suspended, and its pilot did not speak for {limit}");
        self.record(Record::AllocationReleased { allocation: id, why, at: self.now });
        self.step.effects.push(Effect::Cancel { platform, batch_ids });
    }

    /// Notes which allocations are suspended, and since when.
    fn note_suspended(&mut self, listed: &[ListedAllocation]) {
        for entry in listed.iter().filter(|entry| !entry.is_ended) {
            let Some((id, _)) = self.durable.allocation_of(&entry.tag) else { continue };
            match entry.is_suspended {
                true => {
                    self.live.running_since.remove(&id);
                    self.live.suspended.entry(id).or_insert(self.now);
                }
                false => _ = self.live.suspended.remove(&id),
            }
        }
    }

    /// Notes that elements of a job array have ended, whether they had started or not. A platform may be slow
    /// to list all that it has accepted, so early listings do not count.
    fn note_nodes(&mut self, id: AllocationId, n_nodes: Option<u32>, asked_at: Time) {
        let held = &self.durable.allocations()[&id];
        let is_late = held.submitted_at.is_some_and(|at| at + self.listing_lag(held.platform) < asked_at);
        if let Some(n_nodes) = n_nodes.filter(|n_nodes| is_late && *n_nodes < held.n_nodes_there) {
            let platform = held.platform;
            self.record(Record::AllocationShrunk { allocation: id, n_nodes, at: self.now });
            self.live.arm_platform(platform, self.now);
        }
    }

    /// Returns when the submission of an unanswered allocation is over for certain: the process that made it
    /// ended with the previous manager, or a while later.
    pub(in crate::engine) fn submitted_by(&self, id: PlatformId, held: &Allocation) -> Time {
        match held.intended_at < self.live.started_at {
            true => self.live.started_at + self.last_words(id),
            false => held.intended_at + self.settings.submit_limit,
        }
    }

    fn last_words(&self, id: PlatformId) -> Span {
        self.durable.platforms().get(&id).map_or(LAST_WORDS, |spec| last_words(self.settings, spec))
    }

    /// Returns how long a platform may take to list an allocation that it has accepted.
    pub(in crate::engine) fn listing_lag(&self, id: PlatformId) -> Span {
        self.durable.platforms().get(&id).map_or(Span::ZERO, |spec| spec.poll_interval)
    }

    fn allocation_ends(
        &mut self,
        allocation: AllocationId,
        why: String,
        cause: Option<EndCause>,
        was_unlisted: bool,
    ) {
        let waiting = self.durable.waiting_to_be_told(allocation, self.now);
        self.record(Record::AllocationEnded { allocation, why, cause, was_unlisted, at: self.now });
        self.live.timers.extend(waiting.into_iter().map(|task| (self.now, Timer::Retry(task))));
    }

    /// Ends an allocation that is gone. `end`: the reason that its batch system gives, if any.
    /// `was_unlisted`: the only evidence is a listing that lacked the allocation.
    fn allocation_is_gone(&mut self, id: AllocationId, end: Option<&str>, was_unlisted: bool) {
        let Some(allocation) = self.durable.allocations().get(&id) else { return };
        let (platform, pilots) = (allocation.platform, self.durable.live_pilots(allocation));
        let why = match &allocation.state {
            AllocationState::Leaving(why, _) => why.clone(),
            _ if allocation.is_unused() => match self.live.allocation_errors.get(&id) {
                Some((words, _)) => format!("it ended before its pilot came: {words}"),
                None => "it ended before its pilot came".into(),
            },
            _ => match self.live.allocation_errors.get(&id).map(|(words, _)| words.as_str()).or(end) {
                Some(words) => format!("its platform says that it has ended: {words}"),
                None => GONE.into(),
            },
        };
        let is_surprise = allocation.is_live() && allocation.is_unused();
        if allocation.state == AllocationState::Intended {
            let what = "the manager that asked for it ended before the answer came".into();
            self.record(Record::AllocationUnknown { allocation: id, what, at: self.now });
        }
        let lacked_room = self.live.allocation_errors.remove(&id).is_some_and(|(_, lacks_room)| lacks_room);
        self.live.running_since.remove(&id);
        self.live.unlisted.remove(&id);
        self.live.queue_reasons.remove(&id);
        self.allocation_ends(id, why.clone(), end.and_then(EndCause::of), was_unlisted);
        for pilot in pilots {
            self.lose_pilot(pilot, &why);
        }
        self.live.suspended.remove(&id);
        if let Some(end) = end {
            self.note_end_by_platform(id, end);
        }
        if is_surprise {
            let least = if lacked_room { NO_ROOM_PAUSE } else { Span::ZERO };
            let is_first = self.note_failure_of(id, Failed::Job, why, least);
            self.note_lost(platform, u64::from(is_first && !lacked_room));
        }
        self.live.arm_platform(platform, self.now);
    }

    /// Cancels allocations of a platform that are no longer wanted: one call cancels all whose ids are known,
    /// and requests that have not been made yet are withdrawn.
    pub(in crate::engine) fn cancel_allocations(&mut self, platform: PlatformId, ids: &[AllocationId]) {
        self.withdraw(platform, ids.iter().copied());
        let mut batch_ids = Vec::new();
        for id in ids {
            // The id of an allocation that was left behind may be another job's on the platform as it is now.
            let held = self.durable.allocations().get(id).filter(|held| !held.is_left_behind);
            batch_ids.extend(held.and_then(|held| held.batch_id.clone()));
            let why = "not wanted any more".into();
            self.record(Record::AllocationReleased { allocation: *id, why, at: self.now });
        }
        if !batch_ids.is_empty() {
            self.step.effects.push(Effect::Cancel { platform, batch_ids });
        }
    }

    /// Withdraws the requests of these allocations that have not been made yet.
    pub(in crate::engine) fn withdraw(
        &mut self,
        platform: PlatformId,
        ids: impl Iterator<Item = AllocationId>,
    ) {
        let allocations = self.durable.allocations();
        let is_open = |id: &AllocationId| {
            let held = allocations.get(id).filter(|held| held.intended_at >= self.live.started_at);
            held.is_some_and(|held| held.state == AllocationState::Intended)
        };
        let allocations: Vec<AllocationId> = ids.filter(is_open).collect();
        if !allocations.is_empty() {
            self.step.effects.push(Effect::Withdraw { platform, allocations });
        }
    }

    /// Starts the shutdown: nothing new starts, pilots drain or stop, and allocations without pilots are
    /// cancelled.
    pub(in crate::engine) fn shut_down(&mut self, request: RequestId, is_urgent: bool) {
        let (mut requests, was_urgent) = self.live.shutdown.take().unwrap_or_default();
        requests.push(request);
        self.live.shutdown = Some((requests, is_urgent || was_urgent));
        let pilots: Vec<PilotId> = self.live.pilots.keys().copied().collect();
        for pilot in pilots {
            self.drain_pilot(pilot, DrainCause::Shutdown);
            if is_urgent {
                self.command(pilot, PilotCommand::Stop);
            }
        }
        let platforms: Vec<PlatformId> = self.durable.platforms().keys().copied().collect();
        for platform in platforms {
            self.cancel_queued(platform);
        }
    }

    /// Answers the requests for a shutdown once no pilot and no allocation is left.
    pub(in crate::engine) fn finish_shutdown(&mut self) {
        if self.live.shutdown.is_none() || !self.live.pilots.is_empty() {
            return;
        }
        self.keep_measured();
        let is_urgent = self.live.shutdown.as_ref().is_some_and(|(_, is_urgent)| *is_urgent);
        // A platform that is not attached reports nothing more; the next start asks by tag.
        let is_awaited = |a: &Allocation| {
            let state = self.live.platforms.get(&a.platform).filter(|state| state.is_attached);
            let is_attached = state.is_some();
            let is_unlisted = state.is_some_and(|state| state.unlisted.is_some());
            let is_hopeless = is_urgent && (is_unlisted || matches!(a.state, AllocationState::Unknown(..)));
            // An allocation that was cancelled before the platform had answered.
            let is_open = a.may_be_there() && a.batch_id.is_none();
            // Once pilots have come, the rest ends with them, except for a job array whose id is unknown.
            let is_array = self.durable.is_array(a.platform) && a.batch_id.is_none();
            let more_come = a.is_unused() || (is_array && a.came.len() < a.n_nodes as usize);
            (a.is_live() || is_open) && more_come && is_attached && !is_hopeless && !a.is_left_behind
        };
        if self.durable.allocations().values().any(is_awaited) {
            return;
        }
        let requests = self.live.shutdown.as_mut().map(|(requests, _)| std::mem::take(requests));
        let left = self.left_there();
        for request in requests.unwrap_or_default() {
            self.answer(request, Answer::ShutDown(left.clone()));
        }
    }
}
