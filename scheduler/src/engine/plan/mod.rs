//! The planner: which share of each platform each kind of task gets.

pub mod distribute;
pub mod input;
pub mod node_mix;
pub mod planner;
pub mod replanning;
pub mod runtime_model;
