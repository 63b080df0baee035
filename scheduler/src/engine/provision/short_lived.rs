//! Pilots that start and end before they have done anything. Something at their platform ends them: a full
//! disk, a process killer, a policy of the site. No task is blamed for them, so each would otherwise be
//! replaced at once, for ever. A platform where this happens again and again counts as failing: it is asked
//! for one pilot at a time, at growing intervals. So does a platform that ends batch jobs at a time limit
//! that pilots do not know, before any task is done.

use crate::{
    engine::{
        interface::notice::Notice,
        live::platform::short_lived::ShortLived,
        record::{FailedAttempt, end_cause::EndCause},
        state::durable::Durable,
        turn::Turn,
    },
    ids::{AllocationId, JobId, PilotId, PlatformId},
    results::FailureKind,
    time::{Span, Time},
};

/// A pilot that has lived for this long has passed all problems that pilots have at their start.
const SETTLED: Span = Span::from_secs(60);

impl Turn<'_> {
    /// Returns whether the platform keeps ending pilots at a time limit, or soon after their start while no
    /// live pilot has lived for longer.
    pub(in crate::engine) fn ends_pilots(&self, id: PlatformId) -> bool {
        let short_lived = self.live.platforms.get(&id).map(|state| state.short_lived).unwrap_or_default();
        short_lived.is_failure() && (short_lived.is_for_time || !self.has_settled_pilot(id))
    }

    fn has_settled_pilot(&self, id: PlatformId) -> bool {
        let there = self.durable.allocations_there(id);
        there
            .flat_map(|(_, held)| self.durable.live_pilots(held))
            .any(|pilot| has_settled(self.durable, pilot, self.now))
    }

    /// Notes that a report of the pilot was taken. If it has more than preempted tasks, the platform lets
    /// pilots work.
    pub(in crate::engine) fn note_useful(
        &mut self,
        pilot: PilotId,
        n_done: u64,
        failed: &[(JobId, Vec<FailedAttempt>)],
    ) {
        let mut failures = failed.iter().flat_map(|(_, failures)| failures);
        if n_done > 0 || failures.any(|failure| failure.kind != FailureKind::Preempted) {
            let platform = self.durable.pilots().get(&pilot).map(|pilot| pilot.platform);
            if let Some(state) = platform.and_then(|id| self.live.platforms.get_mut(&id)) {
                if state.short_lived.is_for_time() {
                    (state.n_failures, state.ends_jobs, state.last_failure) = (0, false, None);
                }
                state.short_lived = ShortLived::default();
            }
        }
    }

    /// Notes that the pilot has left or was lost, at `heard` at the latest, and no task is blamed. If it was
    /// the last pilot of its allocation, its end was not wanted, and it had hardly started, its platform may
    /// be the cause.
    pub(in crate::engine) fn note_short_life(&mut self, id: PilotId, heard: Time, why: &str) {
        let Some(pilot) = self.durable.pilots().get(&id) else { return };
        let Some(held) = self.durable.allocations().get(&pilot.allocation) else { return };
        let (platform, asked_at) = (pilot.platform, held.intended_at);
        let is_wanted = pilot.drain.is_none() && self.durable.given_back(held).is_none();
        let is_suspended = self.live.suspended.contains_key(&pilot.allocation);
        if !is_wanted || is_suspended || self.winding_up(platform).is_some() {
            return;
        }
        if pilot.n_accused > 0 {
            // These tasks count toward their job's `crash_limit`, unless the platform names another cause.
            return;
        }
        let is_last = self.durable.live_pilots(held).is_empty();
        let has_done = pilot.n_done > 0;
        let was_useful = has_done || has_settled(self.durable, id, heard);
        let Some(state) = self.live.platforms.get_mut(&platform) else { return };
        if was_useful {
            if has_done || !state.short_lived.is_for_time() {
                state.short_lived = ShortLived::default();
            }
            return;
        }
        if is_last {
            let what = format!("its pilots end before they have done anything, the last one: {why}");
            self.count_short_life(platform, (asked_at, false), what);
        }
    }

    /// Notes that an allocation ended with these words of its batch system. Where the platform ended it while
    /// tasks ran, no task is blamed: the end counts here if no task was done, and the allocation had reached
    /// its time limit or had hardly started.
    pub(in crate::engine) fn note_end_by_platform(&mut self, id: AllocationId, words: &str) {
        let Some(held) = self.durable.allocations().get(&id) else { return };
        let (platform, asked_at, is_for_time) = (held.platform, held.intended_at, EndCause::is_time(words));
        if EndCause::of(words) != Some(EndCause::Platform)
            || self.durable.given_back(held).is_some()
            || self.winding_up(platform).is_some()
        {
            return;
        }
        let Some(ends) = self.durable.ends_of(platform) else { return };
        let came = || held.came.iter().filter_map(|id| Some((*id, self.durable.pilots().get(id)?)));
        let had_work = came().any(|(id, _)| ends.has_any(id));
        let is_idle = came().all(|(_, pilot)| pilot.n_done == 0 && pilot.drain.is_none());
        let has_lived = came().any(|(id, pilot)| {
            let ended_at = pilot.ended.as_ref().map_or(self.now, |(at, _)| *at);
            has_settled(self.durable, id, ended_at)
        });
        if !(had_work && is_idle && (is_for_time || !has_lived)) {
            return;
        }
        let what = match is_for_time {
            true => format!(
                "its jobs reach the end of their time before a task is done, the last one: {words}; give the platform a \
                 `walltime` that its tasks need and its queue allows"
            ),
            false => format!("its pilots end before they have done anything, the last one: {words}"),
        };
        self.count_short_life(platform, (asked_at, is_for_time), what);
    }

    /// Counts an allocation that was requested at `asked_at` and has ended although its pilots have done
    /// nothing.
    fn count_short_life(&mut self, id: PlatformId, (asked_at, is_for_time): (Time, bool), what: String) {
        let settings = self.settings;
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        if state.short_lived.n > 0 && asked_at < state.short_lived.last_at {
            return;
        }
        state.short_lived = ShortLived { n: state.short_lived.n + 1, last_at: self.now, is_for_time };
        if !state.short_lived.is_failure() {
            return;
        }
        let n_failures = state.short_lived.n - 1;
        let doubled = settings.platform_delay.times(1 << (n_failures - 1).min(20));
        let until = self.now + doubled.min(settings.platform_delay_max);
        state.n_failures = state.n_failures.max(n_failures);
        (state.failed_at, state.last_failure) = (self.now, Some(what.clone()));
        state.ends_jobs = true;
        state.blocked_until = state.blocked_until.max(until);
        let platform = self.durable.platform_name(id);
        self.notify(Notice::PlatformFailed { platform, what });
    }
}

fn has_settled(durable: &Durable, id: PilotId, now: Time) -> bool {
    durable.pilots().get(&id).is_some_and(|pilot| now.since(pilot.registered_at) >= SETTLED)
}
