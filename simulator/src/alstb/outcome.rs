//! The result of a run, in the paper's metrics (paper 002, section 5.1).

use super::scene::Scene;

/// The result of all jobs together; all are submitted at second 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Processor-seconds: all of a node's processors, from the start of a job on it to its release.
    pub flowtime: f64,
    /// Number of bundles sent.
    pub n_bundles: u64,
    /// Number of tasks sent.
    pub n_tasks: u64,
    /// Number of times that a node started with a job.
    pub n_changes: u64,
    /// When the last task of each job ended; 0 for a job without tasks.
    pub ends: Vec<f64>,
}

impl Outcome {
    pub(super) fn new(scene: &Scene) -> Outcome {
        Outcome { flowtime: 0.0, n_bundles: 0, n_tasks: 0, n_changes: 0, ends: vec![0.0; scene.jobs.len()] }
    }

    pub(super) fn end(&mut self, job: usize, at: f64) {
        self.ends[job] = self.ends[job].max(at);
    }

    /// Returns the seconds until the last job ends.
    pub fn makespan(&self) -> f64 {
        self.ends.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the mean seconds from submission to the end of a job.
    pub fn job_makespan(&self) -> f64 {
        self.ends.iter().sum::<f64>() / self.ends.len().max(1) as f64
    }

    /// Returns makespan, mean job makespan and flowtime: the paper's three metrics, in the order of its
    /// figures.
    pub fn measures(&self) -> [f64; 3] {
        [self.makespan(), self.job_makespan(), self.flowtime]
    }
}
