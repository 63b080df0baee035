//! The plan in force: shares, quotas and mixes of nodes.

pub mod guide;
pub mod guiding;
pub mod nodes;
pub mod quotas;
pub mod weight_history;
