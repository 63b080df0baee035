//! How busy platforms are, by their own word: asked where placement goes by it.

use serde::{Deserialize, Serialize};

use super::{
    Turn,
    interface::{Effect, PlatformSpec},
    volatile::Volatile,
};
use crate::{
    ids::PlatformId,
    time::{Span, Time},
};

/// What a platform says of it is not believed for longer.
const LASTS: Span = Span::from_secs(600);

/// How busy a platform is, by its own word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueLoad {
    /// Cores that nobody uses.
    pub free_cores: u64,
    /// Cores that it has and that work.
    pub cores: u64,
    /// Jobs of anybody that wait.
    pub n_waiting: u64,
    /// Cores that they wait for.
    pub waiting_cores: u64,
}

impl QueueLoad {
    /// The part of all its cores that must come free before so many more can begin behind all that wait; 0: they can
    /// begin at once.
    pub fn shortage(&self, n_cores: u64) -> f64 {
        let missing = self.waiting_cores.saturating_add(n_cores).saturating_sub(self.free_cores);
        missing as f64 / self.cores.max(1) as f64
    }
}

impl Volatile {
    /// How busy a platform is, if it has said so of late.
    pub fn load(&self, id: PlatformId, now: Time) -> Option<QueueLoad> {
        let (load, at) = self.platforms.get(&id)?.load?;
        (now.since(at) <= LASTS).then_some(load)
    }
}

impl Turn<'_> {
    /// Asks how busy the platform is, where that decides something.
    pub(super) fn ask_load(&mut self, id: PlatformId, spec: &PlatformSpec) {
        let is_looked_at = self.durable.census(id).n_there > 0 || !self.volatile.ready.is_empty();
        if self.policies().placement.is_none() || !is_looked_at {
            return;
        }
        let Some(state) = self.volatile.platforms.get_mut(&id) else { return };
        if state.load_asked_at.is_none_or(|at| self.now.since(at) >= spec.poll_interval) {
            state.load_asked_at = Some(self.now);
            self.step.effects.push(Effect::Load { platform: id });
        }
    }

    pub(super) fn platform_loaded(&mut self, id: PlatformId, load: QueueLoad) {
        let Some(state) = self.volatile.platforms.get_mut(&id) else { return };
        let is_news = state.load.is_none_or(|(before, _)| before != load);
        state.load = Some((load, self.now));
        if is_news && !self.volatile.ready.is_empty() {
            self.volatile.placed = None;
            self.volatile.arm_platform(id, self.now);
        }
    }
}
