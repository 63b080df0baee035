//! What a run comes to, in the paper's measures (paper 002, section 5.1).

use super::scene::Scene;

/// Of all jobs together; all are submitted at second 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Processor-seconds: all of a node's processors, from taking up a job to releasing it.
    pub flowtime: f64,
    /// How many bundles went out.
    pub n_bundles: u64,
    /// How many tasks went out.
    pub n_tasks: u64,
    /// How often a node took up a job.
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

    /// Seconds until the last job ends.
    pub fn makespan(&self) -> f64 {
        self.ends.iter().copied().fold(0.0, f64::max)
    }

    /// Seconds from submission until a job ends, the mean over the jobs.
    pub fn job_makespan(&self) -> f64 {
        self.ends.iter().sum::<f64>() / self.ends.len().max(1) as f64
    }

    /// Makespan, mean job makespan and flowtime: the paper's three measures, in the order of its figures.
    pub fn measures(&self) -> [f64; 3] {
        [self.makespan(), self.job_makespan(), self.flowtime]
    }
}
