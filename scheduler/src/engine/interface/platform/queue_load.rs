//! The load of a platform's queue, as the platform reports it.

use serde::{Deserialize, Serialize};

/// The load of a platform's queue, as the platform reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueLoad {
    /// Number of idle cores.
    pub free_cores: u64,
    /// Number of the platform's working cores.
    pub cores: u64,
    /// Number of waiting jobs of all users.
    pub n_waiting: u64,
    /// Number of cores that the waiting jobs request.
    pub waiting_cores: u64,
}

impl QueueLoad {
    /// Returns the part of all cores that must become free before `n_cores` more can start behind all waiting
    /// jobs; 0: they can start at once.
    pub fn shortage(&self, n_cores: u64) -> f64 {
        let missing = self.waiting_cores.saturating_add(n_cores).saturating_sub(self.free_cores);
        missing as f64 / self.cores.max(1) as f64
    }
}
