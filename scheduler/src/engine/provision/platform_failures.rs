//! Failing platforms: they refuse requests, or the allocations that they accept come to nothing. A failing
//! platform is asked at growing intervals, and for one allocation at a time, until one allocation proves that
//! it works again.

use crate::{
    engine::{
        interface::notice::Notice,
        live::{Live, platform::platform_state::PlatformState},
        state::durable::Durable,
        turn::Turn,
    },
    ids::{AllocationId, PlatformId},
    time::{Span, Time},
};

/// A platform that takes no more batch jobs is left alone for this many times the delay after a first
/// failure: a minute.
const FULL_DELAY_FACTOR: u64 = 60;

/// A batch job that has waited in a queue for this long starts later. Where there is room, batch systems
/// start jobs within this time.
const QUEUED_FOR: Span = Span::from_secs(30);

/// The kinds of platform failures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Failed {
    /// The platform did not accept a request, or it is unknown whether it did.
    Submission,
    /// The platform accepted a batch job, and no pilot came of it.
    Job,
}

impl Turn<'_> {
    /// Notes that a platform works but takes no more batch jobs: after a pause it is asked for one, which
    /// shows whether it takes jobs again.
    pub(in crate::engine) fn note_full(&mut self, id: PlatformId, why: String) {
        let settings = self.settings;
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        let delay = settings.platform_delay.times(FULL_DELAY_FACTOR).min(settings.platform_delay_max);
        state.blocked_until = state.blocked_until.max(self.now + delay);
        state.full = Some(why);
    }

    /// Counts an allocation that came to nothing as a failure of its platform, which is left alone for at
    /// least `least`. A failing platform is asked for one allocation at a time. Allocations that were
    /// requested before its last failure therefore came to nothing for the same cause, and count as one
    /// failure together, however many they are. Returns whether this is the first of them.
    pub(in crate::engine) fn note_failure_of(
        &mut self,
        allocation: AllocationId,
        failed: Failed,
        what: String,
        least: Span,
    ) -> bool {
        let settings = self.settings;
        let Some(held) = self.durable.allocations().get(&allocation) else { return false };
        let (id, asked_at) = (held.platform, held.intended_at);
        let Some(state) = self.live.platforms.get_mut(&id) else { return false };
        if state.waits_for_person.is_some() {
            // This is no failure of the platform; the wait ends when a person opens the connection.
            state.blocked_until = self.now + settings.platform_delay_max;
            return false;
        }
        let is_same = state.n_failures > 0 && asked_at <= state.failed_at;
        let n_before = if is_same { state.n_failures - 1 } else { state.n_failures };
        let delay = settings.platform_delay.times(1 << n_before.min(20)).min(settings.platform_delay_max);
        let delay = delay.max(least);
        state.n_failures = n_before + 1;
        state.ends_jobs |= failed == Failed::Job;
        if !is_same {
            state.failed_at = self.now;
        }
        state.blocked_until = state.blocked_until.max(self.now + delay);
        let is_told = is_same && state.last_failure.as_ref() == Some(&what);
        state.last_failure = Some(what.clone());
        if !is_told {
            let spec = self.durable.platforms().get(&id);
            let platform = spec.map_or_else(String::new, |spec| spec.name.clone());
            self.notify(Notice::PlatformFailed { platform, what });
        }
        !is_same
    }

    /// Notes that a pilot came of an allocation. If the allocation was requested before its platform last
    /// failed, the pilot only shows that batch jobs start there.
    pub(in crate::engine) fn note_pilot_came(&mut self, allocation: AllocationId) {
        let Some(held) = self.durable.allocations().get(&allocation) else { return };
        let (platform, asked_at, now) = (held.platform, held.intended_at, self.now);
        let Some(state) = self.live.platforms.get_mut(&platform) else { return };
        state.came_at = Some(now);
        if state.n_failures == 0 {
            return;
        }
        // Where batch jobs end at their time limit, only a task that is done is proof.
        if asked_at >= state.failed_at && !state.short_lived.is_for_time() {
            (state.n_failures, state.ends_jobs, state.last_failure) = (0, false, None);
        }
        self.live.arm_platform(platform, now);
    }

    /// Notes that a listing that was requested at `asked_at` shows a batch job that has not started.
    pub(in crate::engine) fn note_queued(&mut self, allocation: AllocationId, asked_at: Time) {
        let Some(held) = self.durable.allocations().get(&allocation) else { return };
        let (platform, was_asked_at) = (held.platform, held.intended_at);
        let has_waited = held.submitted_at.is_some_and(|at| asked_at.since(at) >= QUEUED_FOR);
        let Some(state) = self.live.platforms.get_mut(&platform) else { return };
        if state.n_failures == 0 || !has_waited || was_asked_at <= state.failed_at {
            return;
        }
        let is_new = state.queued_at.replace(asked_at).is_none_or(|at| at <= state.failed_at);
        if is_new {
            self.live.arm_platform(platform, self.now);
        }
    }

    /// Notes that a platform that has only refused requests works again, if it lists a batch job that it has
    /// accepted since.
    pub(in crate::engine) fn note_accepting(&mut self, id: PlatformId) {
        let Some(state) = self.live.platforms.get(&id) else { return };
        if state.n_failures == 0 || state.ends_jobs {
            return;
        }
        let is_proof = |allocation: &AllocationId| self.live.shown.contains_key(allocation);
        if asked_since(self.durable, id, state.failed_at).any(|allocation| is_proof(&allocation)) {
            if let Some(state) = self.live.platforms.get_mut(&id) {
                (state.n_failures, state.last_failure) = (0, None);
            }
            self.live.arm_platform(id, self.now);
        }
    }
}

impl PlatformState {
    /// Returns whether the platform fails: then only one allocation at a time is requested. A batch job that
    /// has waited long in its queue since the last failure shows that the platform takes jobs again.
    pub(in crate::engine) fn is_failing(&self) -> bool {
        self.n_failures > 0 && self.queued_at.is_none_or(|at| at <= self.failed_at)
    }
}

impl Live {
    /// Returns whether a failing platform was asked for an allocation since its last failure and the fate of
    /// that allocation is still unknown; until it is known, no more are requested. An allocation in a long
    /// queue shows nothing for hours, so others may wait beside it.
    pub(in crate::engine) fn is_on_trial(&self, durable: &Durable, id: PlatformId) -> bool {
        let failing = self.platforms.get(&id).filter(|state| state.is_failing());
        failing.is_some_and(|state| {
            state.came_at.is_none_or(|at| at <= state.failed_at)
                && asked_since(durable, id, state.failed_at).next().is_some()
        })
    }
}

/// Returns the allocations of a platform that were requested after `at`, may be there, and of which no pilot
/// has come.
fn asked_since(durable: &Durable, id: PlatformId, at: Time) -> impl Iterator<Item = AllocationId> {
    let waiting = durable.allocations_there(id).filter(|(_, held)| held.is_live() && held.is_unused());
    waiting.filter(move |(_, held)| held.intended_at > at).map(|(id, _)| id)
}
