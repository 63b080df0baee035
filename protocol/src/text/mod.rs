//! Texts for people: sizes and times, limits, output on a terminal.

pub mod harmless;
pub mod kept;
pub mod parameters;
pub mod ulimits;
pub mod units;
