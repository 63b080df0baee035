//! By profile: divides tasks in proportion to the rates of the platforms, by the profiled runtimes and the
//! cores, so that all platforms finish at the same time (paper 003, section 3: the initial weights). Fixed.

use super::{Known, WeightMatrix};

/// Returns a row for each application, in proportion to the rates at which platforms finish its tasks.
pub(super) fn matrix(known: &Known<'_>) -> WeightMatrix {
    WeightMatrix::of(&known.rates())
}
