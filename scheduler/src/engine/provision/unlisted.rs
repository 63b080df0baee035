//! Interprets a listing that lacks an allocation. A platform may list late what it has accepted, as where
//! listings come from a cache or batch jobs are forwarded to another cluster; a wrapper may hide an error;
//! and a pilot may come whatever was listed.

use std::collections::BTreeSet;

use crate::{
    engine::{
        interface::effect::Effect,
        record::Record,
        state::allocation::{Allocation, AllocationState},
        turn::Turn,
    },
    ids::{AllocationId, PilotId, PlatformId},
    time::{Span, Time},
};

/// A platform that is not this host lists an allocation within this time after accepting it: caches of
/// listings are renewed at least every 30 seconds, and federations forward batch jobs faster.
pub(in crate::engine) const SHOWN_WITHIN: Span = Span::from_secs(60);

impl Turn<'_> {
    /// Notes which allocations a listing shows, by their tags, and forgets allocations that are no longer
    /// there.
    pub(in crate::engine) fn note_shown(&mut self, shown: &BTreeSet<&str>, asked_at: Time) {
        for (id, _) in shown.iter().filter_map(|tag| self.durable.allocation_of(tag)) {
            let first = self.live.shown.entry(id).or_insert(asked_at);
            *first = asked_at.min(*first);
        }
        let allocations = self.durable.allocations();
        let is_there = |id: &AllocationId| allocations.get(id).is_some_and(Allocation::may_be_there);
        self.live.shown.retain(|id, _| is_there(id));
        self.live.missed.retain(is_there);
    }

    /// Returns whether a listing that lacks an allocation, or shows it as ended, was requested late enough to
    /// be believed. `is_told`: the platform says that the allocation has ended.
    pub(in crate::engine) fn is_missing(&self, id: AllocationId, asked_at: Time, is_told: bool) -> bool {
        let held = &self.durable.allocations()[&id];
        let platform = held.platform;
        let since = match held.state {
            AllocationState::Submitted => held.submitted_at,
            AllocationState::Intended => {
                Some(self.submitted_by(platform, held)).filter(|_| held.intended_at < self.live.started_at)
            }
            // The request may have been under way for this long when it was given up.
            AllocationState::Unknown(_, at) => Some(at + self.settings.submit_limit),
            // An allocation that is no longer wanted may still be on its way to the platform.
            AllocationState::Leaving(_, at) if held.batch_id.is_none() => {
                Some(at.max(self.submitted_by(platform, held)))
            }
            AllocationState::Leaving(_, at) => Some(at),
            AllocationState::Ended(_) => None,
        };
        let Some(since) = since else { return false };
        // A platform may be slow to list a new allocation; an allocation whose pilot came was listed already.
        let came = held.came.iter().filter_map(|pilot| self.durable.pilots().get(pilot));
        let was_shown = came.into_iter().any(|pilot| pilot.registered_at < asked_at);
        let lag = if was_shown { Span::ZERO } else { self.listing_lag(platform) };
        if since + lag >= asked_at {
            return false;
        }
        // Listings may arrive in another order than they were requested.
        let was_listed = self.live.shown.get(&id).is_some_and(|first| *first < asked_at);
        let is_late = self.is_elsewhere(platform) && !is_told && !was_listed;
        let accepted_at = held.submitted_at.filter(|_| held.batch_id.is_some());
        !(is_late && accepted_at.is_some_and(|at| at + SHOWN_WITHIN >= asked_at))
    }

    /// Returns whether an allocation that a listing lacks, and that the platform does not call ended, was
    /// missing before. One listing is no proof against a waiting allocation, which would lose its place in
    /// the queue.
    pub(in crate::engine) fn is_missed_again(&mut self, id: AllocationId) -> bool {
        let held = &self.durable.allocations()[&id];
        let is_waiting = held.state == AllocationState::Submitted && held.is_unused();
        !is_waiting || !self.is_elsewhere(held.platform) || !self.live.missed.insert(id)
    }

    /// Returns whether the platform is not this host, whose listings show all processes at once.
    pub(in crate::engine) fn is_elsewhere(&self, id: PlatformId) -> bool {
        self.durable.platforms().get(&id).is_some_and(|spec| spec.submits_late)
    }

    /// Returns the batch id of an allocation that must be cancelled once although it counts as ended, because
    /// the only evidence is a listing that lacked it.
    pub(in crate::engine) fn to_be_cancelled(&self, id: AllocationId) -> Option<String> {
        let held = self.durable.allocations().get(&id)?;
        let is_wanted = held.is_live() && held.is_unused() && self.is_elsewhere(held.platform);
        held.batch_id.clone().filter(|_| is_wanted)
    }

    /// Returns whether the first pilot of an allocation that counts as ended may still come. Once a pilot has
    /// come, the join token is revoked, because others may have read it.
    pub(in crate::engine) fn may_come_late(held: &Allocation) -> bool {
        held.was_unlisted && !held.was_released && !held.may_be_there() && held.is_unused()
    }

    /// Notes that a pilot came of an allocation that counted as ended because a listing lacked it: the
    /// allocation is there.
    pub(in crate::engine) fn comes_late(&mut self, allocation: AllocationId, batch_id: Option<String>) {
        let Some(held) = self.durable.allocations().get(&allocation) else { return };
        let batch_id = held.batch_id.clone().or(batch_id).unwrap_or_default();
        let was_listed = false;
        self.record(Record::AllocationSubmitted { allocation, batch_id, was_listed, at: self.now });
        self.live.unlisted.insert(allocation);
    }

    /// Notes that the pilot of an allocation that counted as ended speaks: the allocation is there, and
    /// counts toward all limits.
    pub(in crate::engine) fn allocation_is_back(&mut self, pilot: PilotId) {
        let Some(pilot) = self.durable.pilots().get(&pilot) else { return };
        let (allocation, platform, batch_id) =
            (pilot.allocation, pilot.platform, pilot.node.batch_id.clone());
        let ended = self.durable.allocations().get(&allocation).is_some_and(|held| !held.may_be_there());
        if !ended {
            return;
        }
        self.comes_late(allocation, batch_id);
        self.withdraw_excess(platform);
        self.live.arm_platform(platform, self.now);
    }

    /// Cancels waiting allocations where more are there than the limit allows. The newest go first.
    pub(in crate::engine) fn withdraw_excess(&mut self, id: PlatformId) {
        let Some(n_max) = self.durable.platforms().get(&id).map(|spec| spec.n_pilots_max as usize) else {
            return;
        };
        let mut n_over = self.durable.allocation_counts(id).n_there.saturating_sub(n_max);
        let there: Vec<(AllocationId, usize)> = self
            .durable
            .allocations_there(id)
            .filter(|(_, held)| held.state == AllocationState::Submitted && held.is_unused())
            .map(|(id, held)| (id, held.n_nodes_there as usize))
            .collect();
        let mut excess = Vec::new();
        for (allocation, n_nodes) in there.into_iter().rev() {
            if n_over == 0 {
                break;
            }
            n_over = n_over.saturating_sub(n_nodes);
            excess.push(allocation);
        }
        if !excess.is_empty() {
            self.cancel_allocations(id, &excess);
        }
    }

    /// Cancels batch jobs that are unwanted, or that count as ended and may still be there.
    pub(in crate::engine) fn cancel_missed(&mut self, platform: PlatformId, batch_ids: Vec<String>) {
        if !batch_ids.is_empty() {
            self.step.effects.push(Effect::Cancel { platform, batch_ids });
        }
    }
}
