//! How busy a platform is, by its own word.

use serde::{Deserialize, Serialize};

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
