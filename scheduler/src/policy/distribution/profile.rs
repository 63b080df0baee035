//! By profile: each platform as many tasks as it finishes in the time in which all platforms finish all, by
//! the profiled runtimes and the cores (paper 003, section 3: the initial weights). Fixed.

use super::{Known, WeightMatrix};

/// A row for each application, in proportion to the rates at which platforms finish its tasks.
pub(super) fn matrix(known: &Known<'_>) -> WeightMatrix {
    WeightMatrix::of(&known.rates())
}
