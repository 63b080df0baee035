//! Output of tasks: kept, and as it comes.

pub(crate) mod follow;
pub(crate) mod live;
pub(crate) mod outputs;
