//! The ratio of vCPUs to cores of each platform.

use crate::engine::interface::platform::scaling::{Provider, Ratio, ScalingChange, ScalingWay};

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
    pub(in crate::engine) fn of_pilots(&self) -> Ratio {
        if self.by == ScalingWay::Slots { self.ratio } else { Ratio::ONE }
    }
}
