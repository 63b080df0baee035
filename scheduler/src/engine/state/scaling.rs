//! The ratio of vCPUs to cores of each platform.

use crate::{
    engine::{
        interface::platform::scaling::{Provider, Ratio, ScalingChange, ScalingWay},
        state::durable::Durable,
    },
    ids::PlatformId,
    resources::Resources,
};

/// Changes that are remembered, of each platform.
const N_CHANGES_MAX: usize = 100;

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
    pub(in crate::engine) fn note(&mut self, change: &ScalingChange) {
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

impl Durable {
    /// What a pilot of the platform offers.
    pub fn offered(&self, id: PlatformId) -> Resources {
        let capacity = self.platforms().get(&id).map(|spec| spec.capacity.clone()).unwrap_or_default();
        self.with_slots(id, capacity)
    }

    /// What a node of the platform offers that has this.
    pub(in crate::engine) fn with_slots(&self, id: PlatformId, mut capacity: Resources) -> Resources {
        let ratio = self.scaled(id).map_or(Ratio::ONE, Scaled::of_pilots);
        let n_cores = if capacity.widest > 0 { capacity.widest } else { capacity.cores };
        let is_scaled = ratio != Ratio::ONE;
        (capacity.cores, capacity.widest) = (ratio.of_cores(n_cores), if is_scaled { n_cores } else { 0 });
        capacity
    }
}
