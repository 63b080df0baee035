//! Output and files that tasks have left.

pub(crate) mod arrivals;
pub(crate) mod cut_outputs;
pub(crate) mod files;
pub(crate) mod kept;
