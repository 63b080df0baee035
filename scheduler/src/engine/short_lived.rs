//! Pilots that come and end before they have done anything. Something at their platform ends them: a full disk, a
//! process killer, a policy of the site. No task is blamed for them, so without this each would be replaced at once, for
//! ever. A platform where that happens again and again counts as failing: it is asked for one pilot at a time, ever later.

use super::{Turn, durable::Durable, interface::Notice, record::FailedAttempt};
use crate::{
    ids::{JobId, PilotId, PlatformId},
    results::FailureKind,
    time::{Span, Time},
};

/// A pilot that has lived so long has got over all that meets pilots at their start.
const SETTLED: Span = Span::from_secs(60);

/// Allocations of a platform whose pilots ended in a row before they had done anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortLived {
    /// How many; those that were asked for before the last of them ended have the same cause, and are not counted again.
    n: u32,
    /// When the last of them ended.
    last_at: Time,
}

impl ShortLived {
    /// Whether the platform is to be asked for one pilot at a time. A single one may have been killed by somebody.
    fn is_failure(self) -> bool {
        self.n > 1
    }
}

impl Turn<'_> {
    /// Whether pilots of the platform end at once, and none has lived for longer since.
    pub(super) fn ends_pilots(&self, id: PlatformId) -> bool {
        let is_failure = self.volatile.platforms.get(&id).is_some_and(|state| state.short_lived.is_failure());
        is_failure && !self.has_settled_pilot(id)
    }

    fn has_settled_pilot(&self, id: PlatformId) -> bool {
        let there = self.durable.allocations_there(id);
        there
            .flat_map(|(_, held)| self.durable.live_pilots(held))
            .any(|pilot| has_settled(self.durable, pilot, self.now))
    }

    /// A report of the pilot was taken. Its platform lets pilots work if it tells more than what was preempted.
    pub(super) fn note_useful(
        &mut self,
        pilot: PilotId,
        n_done: u64,
        failed: &[(JobId, Vec<FailedAttempt>)],
    ) {
        let mut failures = failed.iter().flat_map(|(_, failures)| failures);
        if n_done > 0 || failures.any(|failure| failure.kind != FailureKind::Preempted) {
            let platform = self.durable.pilots().get(&pilot).map(|pilot| pilot.platform);
            if let Some(state) = platform.and_then(|id| self.volatile.platforms.get_mut(&id)) {
                state.short_lived = ShortLived::default();
            }
        }
    }

    /// The pilot has left or was given up, at `heard` at the latest, and nobody is blamed. If it was the last one of its
    /// allocation, nobody wanted that, and it had hardly come, its platform may be the cause.
    pub(super) fn note_short_life(&mut self, id: PilotId, heard: Time, why: &str) {
        let Some(pilot) = self.durable.pilots().get(&id) else { return };
        let Some(held) = self.durable.allocations().get(&pilot.allocation) else { return };
        let (platform, asked_at, settings) = (pilot.platform, held.intended_at, self.settings);
        let is_wanted = pilot.drain.is_none() && self.durable.given_back(held).is_none();
        let is_suspended = self.volatile.suspended.contains_key(&pilot.allocation);
        if !is_wanted || is_suspended || self.winding_up(platform).is_some() {
            return;
        }
        if pilot.n_accused > 0 {
            // Those tasks count toward their job's `crash_limit`.
            return;
        }
        let is_last = self.durable.live_pilots(held).is_empty();
        let was_useful = pilot.n_done > 0 || has_settled(self.durable, id, heard);
        let Some(state) = self.volatile.platforms.get_mut(&platform) else { return };
        if was_useful {
            state.short_lived = ShortLived::default();
            return;
        }
        let is_same = state.short_lived.n > 0 && asked_at < state.short_lived.last_at;
        if !is_last || is_same {
            return;
        }
        state.short_lived = ShortLived { n: state.short_lived.n + 1, last_at: self.now };
        if !state.short_lived.is_failure() {
            return;
        }
        let n_failures = state.short_lived.n - 1;
        let doubled = settings.platform_delay.times(1 << (n_failures - 1).min(20));
        let until = self.now + doubled.min(settings.platform_delay_max);
        let what = format!("its pilots end before they have done anything, the last one: {why}");
        state.n_failures = state.n_failures.max(n_failures);
        (state.failed_at, state.last_failure) = (self.now, Some(what.clone()));
        state.blocked_until = state.blocked_until.max(until);
        let spec = self.durable.platforms().get(&platform);
        let platform = spec.map_or_else(String::new, |spec| spec.name.clone());
        self.notify(Notice::PlatformFailed { platform, what });
    }
}

fn has_settled(durable: &Durable, id: PilotId, now: Time) -> bool {
    durable.pilots().get(&id).is_some_and(|pilot| now.since(pilot.registered_at) >= SETTLED)
}
