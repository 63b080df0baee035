//! What a run comes to, in the paper's measures (paper 002, section 5.1).

use super::scene::Scene;

/// Of all jobs together. All jobs are submitted at the start, which is second 0.
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
    /// When each job's first and last task began and ended.
    spans: Vec<(f64, f64)>,
}

impl Outcome {
    pub(super) fn new(scene: &Scene) -> Outcome {
        let spans = vec![(f64::INFINITY, 0.0); scene.jobs.len()];
        Outcome { flowtime: 0.0, n_bundles: 0, n_tasks: 0, n_changes: 0, spans }
    }

    pub(super) fn begin(&mut self, job: usize, at: f64) {
        self.spans[job].0 = self.spans[job].0.min(at);
    }

    pub(super) fn end(&mut self, job: usize, at: f64) {
        self.spans[job].1 = self.spans[job].1.max(at);
    }

    /// Seconds until the last job ends.
    pub fn makespan(&self) -> f64 {
        self.spans.iter().map(|(_, end)| *end).fold(0.0, f64::max)
    }

    /// Mean over the jobs of the seconds until each ends.
    pub fn job_makespan(&self) -> f64 {
        self.spans.iter().map(|(_, end)| end).sum::<f64>() / self.spans.len().max(1) as f64
    }

    pub fn job_span(&self) -> f64 {
        self.spans.iter().map(|(b, end)| end - b).sum::<f64>() / self.spans.len().max(1) as f64
    }
}
