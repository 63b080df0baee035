//! Throughput: what a core of the platform gets done of the user's tasks (paper 000, section 4.1).

use super::Table;

/// Tasks a second.
pub(super) fn table(runtimes: &Table<f64>) -> Table<f64> {
    runtimes.map_places(|user, platform| 1.0 / runtimes.at(user, platform))
}
