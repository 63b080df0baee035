//! The plan in force: fair shares, quotas and node mixes.

pub mod in_force;
pub mod node_mix;
pub mod quota;
pub mod schedule;
pub mod weight_changes;
