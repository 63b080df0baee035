//! Dispatch: chooses the tasks that a pulling pilot gets.

pub mod candidate;
pub mod capacity;
pub mod elsewhere;
pub mod isolation;
pub mod node_share;
pub mod profiling;
pub mod serve;
pub mod shortlist;
pub mod usage;
