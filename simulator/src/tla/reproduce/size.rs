//! The size of a reproduction: how many jobs and speed vectors are run.

use crate::report::Effort;

/// The numbers of jobs and speed vectors.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Number of jobs of each workload.
    pub n_jobs: usize,
    /// Number of jobs of the workload of the sweeps.
    pub n_sweep_jobs: usize,
    /// Number of speed vectors for each heterogeneity of table 4.
    pub n_vectors: u64,
    /// Number of speed vectors for each point of the sweeps.
    pub n_sweep_vectors: u64,
}

impl Size {
    pub fn of(effort: Effort) -> Size {
        match effort {
            Effort::Quick => Size { n_jobs: 1_000, n_sweep_jobs: 1_000, n_vectors: 2, n_sweep_vectors: 1 },
            Effort::Full => Size { n_jobs: 20_000, n_sweep_jobs: 20_000, n_vectors: 10, n_sweep_vectors: 3 },
        }
    }
}
