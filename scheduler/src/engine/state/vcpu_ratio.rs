//! The vCPU ratio of each platform.

use crate::engine::interface::platform::scaling::{Provider, Ratio, ScalingChange, ScalingWay};

/// Number of changes that are kept for each platform.
const N_CHANGES_MAX: usize = 100;

/// The recorded state of a platform's vCPU ratio.
#[derive(Clone, PartialEq, Debug)]
pub struct Scaled {
    /// The vCPU ratio.
    pub ratio: Ratio,
    /// The way in which it is applied.
    pub by: ScalingWay,
    /// The last changes, oldest first.
    pub changes: Vec<ScalingChange>,
    /// The hosts that were changed, with the ratios that must be restored in the end.
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

    /// Returns the ratio that pilots apply to their slots.
    pub(in crate::engine) fn of_pilots(&self) -> Ratio {
        if self.by == ScalingWay::Slots { self.ratio } else { Ratio::ONE }
    }
}
