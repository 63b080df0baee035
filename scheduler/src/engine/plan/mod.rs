//! Plans: which part of each platform is meant for each user, task class and application.

pub mod distribute;
pub mod input;
pub mod node_mix;
pub mod planner;
pub mod replanning;
pub mod runtime_model;
