//! Affinity: how well applications suit platforms, and each other.

pub mod corunner;
mod epa;
mod rpa;
#[cfg(test)]
pub(super) mod tests_of_paper;
mod throughput;

use serde::{Deserialize, Serialize};

use super::table::Table;

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Affinity {
    /// Tasks a second on one core: see `throughput.rs`.
    Throughput,
    /// Compared with the user's other platforms: see `epa.rs`.
    Epa,
    /// Compared with the other users too: see `rpa.rs`.
    #[default]
    Rpa,
}

impl Affinity {
    /// Returns how much each user (row) would like a core of each platform (column); larger is better.
    ///
    /// `runtimes`: seconds that a task of the user's application takes on one core of the platform, alone on
    /// its node; positive. `is_in_need`: users that have tasks left. O(users × platforms).
    pub fn table(self, runtimes: &Table<f64>, is_in_need: &[bool]) -> Table<f64> {
        match self {
            Affinity::Throughput => throughput::table(runtimes),
            Affinity::Epa => epa::table(runtimes),
            Affinity::Rpa => rpa::table(runtimes, is_in_need),
        }
    }
}
