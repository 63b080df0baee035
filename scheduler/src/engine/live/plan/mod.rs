//! The plan in force: shares, quotas and mixes of nodes.

pub mod in_force;
pub mod node_mix;
pub mod quota;
pub mod schedule;
pub mod weight_changes;
