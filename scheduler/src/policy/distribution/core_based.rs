//! By cores: each platform gets tasks in proportion to its cores, whatever runs on them (paper 003, section
//! 4: the baseline for its weights).

use super::{Known, WeightMatrix};

/// Returns the same row for each application.
pub(super) fn matrix(known: &Known<'_>) -> WeightMatrix {
    WeightMatrix::of(&known.runtimes.map_places(|_, platform| known.cores[platform] as f64))
}
