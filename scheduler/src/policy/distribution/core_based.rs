//! By cores: each platform as many tasks as it has cores, whatever runs on them (paper 003, section 4: what
//! its weights are compared with).

use super::{Known, WeightMatrix};

/// The same row for each application.
pub(super) fn matrix(known: &Known<'_>) -> WeightMatrix {
    WeightMatrix::of(&known.runtimes.map_places(|_, platform| known.cores[platform] as f64))
}
