//! The world of paper 004 (Wang et al., "Load-balanced and locality-aware scheduling for data-intensive
//! workloads at extreme scales", 2015): MATRIX with data-aware work stealing (DAWS), as a simulation of
//! events.
//!
//! Every node has a pilot with two threads, the real ready queues and the real stealing policies; the
//! network, the data and the running of tasks are simulated. [`bounds`] has the bounds for all policies.

pub mod bounds;
pub mod machine;
pub mod published;
pub mod workload;
pub mod world;

mod node;
mod parts;

use crate::report::{Effort, Progress, Report};

/// Reproduces the paper's bound, DAWS compared with it, all-pairs and the imbalance of Fan-Out, and shows the
/// policies that beat FLDS.
///
/// The same seed gives the same report. Full: up to 131,072 cores for the bound and 16,384 for the
/// simulation, 1000 tasks for each core; quick: a hundredth of that.
pub fn reproduce(effort: Effort, seed: u64, progress: &dyn Progress) -> Report {
    let parts = vec![
        parts::bound::part(effort, seed, progress),
        parts::scaling::part(effort, seed, progress),
        parts::all_pairs::part(effort, seed, progress),
        parts::imbalance::part(effort, seed, progress),
        parts::laws::part(effort, seed, progress),
    ];
    Report {
        name: "matrix",
        paper: "K. Wang, K. Qiao, I. Sadooghi, X. Zhou, T. Li, M. Lang, I. Raicu: Load-balanced and \
                locality-aware scheduling for data-intensive workloads at extreme scales. Concurrency and \
                Computation: Practice and Experience, 2015 (paper 004)",
        effort,
        parts,
    }
}

#[cfg(test)]
mod tests;
