//! Bundling by how long tasks will take: which of the chosen job's tasks go to a node together (paper 002,
//! section 3.3, equation 9, Fig. 3).

mod bin_packing;
mod estimates;
mod fixed;

use serde::{Deserialize, Serialize};

pub use bin_packing::{BinPacking, Largest, Packed};
pub use estimates::Estimates;

/// The policies of this layer that know estimates, by their words.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByEstimate {
    /// One task: see `fixed.rs`.
    Single,
    /// So many tasks, or all that are left: see `fixed.rs`.
    Fixed {
        /// How many.
        n_tasks: u64,
    },
    /// As many as fit a bin for each processor: see `bin_packing.rs`.
    BinPacking(BinPacking),
}

impl Default for ByEstimate {
    fn default() -> ByEstimate {
        ByEstimate::BinPacking(BinPacking::default())
    }
}

/// Tasks of a job that wait, with an estimate each.
pub trait Waiting {
    /// What names a task.
    type Task;
    /// The largest estimate of those that wait.
    fn largest(&self) -> Option<f64>;
    /// The largest estimate of all that ever waited; 0 when there was none.
    fn largest_ever(&self) -> f64;
    /// What the estimates of those that wait come to together.
    fn work(&self) -> f64;
    /// The largest of those that wait whose estimate is at most this goes.
    fn take_at_most(&mut self, bound: f64) -> Option<(f64, Self::Task)>;
}

/// A node that asks for tasks of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taker {
    /// How many of the job's tasks it runs at a time (the paper's D).
    pub n_bins: u32,
    /// How many seconds of a task's estimate it works off in a second (the paper's r); positive.
    pub rate: f64,
    /// Seconds to bring it a bundle (the paper's T_trans).
    pub transfer_s: f64,
    /// Seconds to set up the application's environment there (the paper's T_env).
    pub environment_s: f64,
    /// How many processors work on the job, on all nodes, this one's included; for the shrinking tail.
    pub n_sharing: u64,
}

impl ByEstimate {
    /// As in the paper, with our constants.
    pub const PAPER: ByEstimate = ByEstimate::BinPacking(BinPacking::PAPER);

    /// Takes a bundle out of the tasks that wait: the estimates of what goes, the largest first. Never
    /// empty while a task waits. O(s log n) for s tasks of n.
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
