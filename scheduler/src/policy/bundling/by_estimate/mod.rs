//! Bundling by estimated runtime: chooses the tasks of a job that go to a node together (paper 002, section
//! 3.3, equation 9, Fig. 3).

mod bin_packing;
mod estimates;
mod fixed;

use serde::{Deserialize, Serialize};

pub use bin_packing::{BinPacking, Largest, Packed};
pub use estimates::Estimates;

/// The policies of this layer that use estimates, by their words.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByEstimate {
    /// One task: see `fixed.rs`.
    Single,
    /// A fixed number of tasks, or all that are left: see `fixed.rs`.
    Fixed {
        /// Number of tasks.
        n_tasks: u64,
    },
    /// The tasks that fit into one bin for each processor: see `bin_packing.rs`.
    BinPacking(BinPacking),
}

impl Default for ByEstimate {
    fn default() -> ByEstimate {
        ByEstimate::BinPacking(BinPacking::default())
    }
}

/// Waiting tasks of a job, each with an estimate.
pub trait Waiting {
    /// The name of a task.
    type Task;
    /// Returns the largest estimate of the waiting tasks.
    fn largest(&self) -> Option<f64>;
    /// Returns the largest estimate of all tasks that ever waited; 0 if there was none.
    fn largest_ever(&self) -> f64;
    /// Returns the sum of the waiting tasks' estimates.
    fn work(&self) -> f64;
    /// Takes the largest waiting task whose estimate is at most `bound`.
    fn take_at_most(&mut self, bound: f64) -> Option<(f64, Self::Task)>;
}

/// A node that asks for tasks of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taker {
    /// Number of the job's tasks that it runs at a time (the paper's D).
    pub n_bins: u32,
    /// Units of estimate that it works off in a second (the paper's r); positive.
    pub rate: f64,
    /// Seconds to bring it a bundle (the paper's T_trans).
    pub transfer_s: f64,
    /// Seconds to set up the application's environment there (the paper's T_env).
    pub environment_s: f64,
    /// Number of processors that work on the job, on all nodes including this one; for the shrinking tail.
    pub n_sharing: u64,
}

impl ByEstimate {
    /// The policy of the paper, with our constants.
    pub const PAPER: ByEstimate = ByEstimate::BinPacking(BinPacking::PAPER);

    /// Takes a bundle out of the waiting tasks and returns its estimates, the largest first. Never empty
    /// while a task waits. O(s log n) for s tasks of n.
    pub fn take(self, waiting: &mut Estimates, taker: &Taker) -> Vec<f64> {
        match self {
            ByEstimate::Single => fixed::take(waiting, 1),
            ByEstimate::Fixed { n_tasks } => fixed::take(waiting, n_tasks),
            ByEstimate::BinPacking(law) => bin_packing::take(waiting, taker, law),
        }
    }
}

#[cfg(test)]
mod tests;
