//! How busy platforms say they are. They are asked where placement uses it.

use crate::{
    engine::{
        interface::{
            effect::Effect,
            platform::{platform_spec::PlatformSpec, queue_load::QueueLoad},
        },
        live::Live,
        turn::Turn,
    },
    ids::PlatformId,
    time::{Span, Time},
};

/// How long a platform's load is believed after it was reported.
const LASTS: Span = Span::from_secs(600);

impl Live {
    /// Returns how busy a platform is, if it has reported this recently.
    pub fn load(&self, id: PlatformId, now: Time) -> Option<QueueLoad> {
        let (load, at) = self.platforms.get(&id)?.load?;
        (now.since(at) <= LASTS).then_some(load)
    }
}

impl Turn<'_> {
    /// Asks the platform how busy it is, where this decides something.
    pub(in crate::engine) fn ask_load(&mut self, id: PlatformId, spec: &PlatformSpec) {
        let is_looked_at = self.durable.allocation_counts(id).n_there > 0 || !self.live.ready.is_empty();
        if self.policies().placement.is_none() || !is_looked_at {
            return;
        }
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        if state.load_asked_at.is_none_or(|at| self.now.since(at) >= spec.poll_interval) {
            state.load_asked_at = Some(self.now);
            self.step.effects.push(Effect::Load { platform: id });
        }
    }

    pub(in crate::engine) fn platform_loaded(&mut self, id: PlatformId, load: QueueLoad) {
        let Some(state) = self.live.platforms.get_mut(&id) else { return };
        let is_news = state.load.is_none_or(|(before, _)| before != load);
        state.load = Some((load, self.now));
        if is_news && !self.live.ready.is_empty() {
            self.live.placed = None;
            self.live.arm_platform(id, self.now);
        }
    }
}
