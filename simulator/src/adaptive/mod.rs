//! The world of paper 003 (Kim, Choi and Kim, "Adaptive application-aware job scheduling optimization
//! strategy in heterogeneous infrastructures", Cluster Computing 19, 2016).

pub mod fluid;
pub mod published;
mod reproduction;
pub mod workload;
pub mod world;

use crate::report::{Effort, Progress, Report};

/// Runs the paper's example and its workloads under its policies and ours, and compares the results.
pub fn reproduce(effort: Effort, seed: u64, progress: &dyn Progress) -> Report {
    reproduction::report(effort, seed, progress)
}
