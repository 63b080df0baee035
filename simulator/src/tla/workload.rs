//! Jobs that are submitted over time, whether from a log or from a model.

use scheduler::rng::Rng;

use crate::draw;

/// A rigid parallel job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// When it was submitted, in seconds.
    pub submitted_at: f64,
    /// Number of processors, all on one cluster.
    pub cores: u64,
    /// The runtime on a cluster of speed 1, in seconds.
    pub runtime: f64,
    /// The estimated runtime there, in seconds.
    pub estimate: f64,
}

/// Jobs in the order of their submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    jobs: Vec<Job>,
}

impl Workload {
    /// Makes a workload of these jobs; jobs submitted at the same time keep their order.
    pub fn new(mut jobs: Vec<Job>) -> Workload {
        jobs.sort_by(|a, b| a.submitted_at.total_cmp(&b.submitted_at));
        Workload { jobs }
    }

    /// Returns the jobs in the order of their submission.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns the workload without the jobs that need more than `n_cores` processors.
    pub fn up_to(&self, n_cores: u64) -> Workload {
        Workload { jobs: self.jobs.iter().filter(|job| job.cores <= n_cores).copied().collect() }
    }

    /// Returns the system load SL: the work divided by the capacity of `n_cores` processors of speed 1 from
    /// the first submission to the last. 0 if no time passes.
    pub fn load(&self, n_cores: u64) -> f64 {
        let (Some(first), Some(last)) = (self.jobs.first(), self.jobs.last()) else { return 0.0 };
        let work: f64 = self.jobs.iter().map(|job| job.runtime * job.cores as f64).sum();
        let duration = last.submitted_at - first.submitted_at;
        if duration > 0.0 { work / duration / n_cores as f64 } else { 0.0 }
    }

    /// Returns the workload with all runtimes and estimates scaled to this load; unchanged if its load is 0.
    pub fn at_load(&self, load: f64, n_cores: u64) -> Workload {
        let now = self.load(n_cores);
        let factor = if now > 0.0 { load / now } else { 1.0 };
        let scaled =
            |job: &Job| Job { runtime: job.runtime * factor, estimate: job.estimate * factor, ..*job };
        Workload { jobs: self.jobs.iter().map(scaled).collect() }
    }

    /// Applies the f-model of wrong estimates: each estimate is drawn uniformly between the runtime and `f`
    /// times the runtime.
    pub fn with_estimates(&self, f: f64, seed: u64) -> Workload {
        let mut luck = Rng::of(seed, &[f.to_bits()]);
        let mut judged =
            |job: &Job| Job { estimate: job.runtime * (1.0 + (f - 1.0) * draw::uniform(&mut luck)), ..*job };
        Workload { jobs: self.jobs.iter().map(&mut judged).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Job, Workload};

    fn job(submitted_at: f64, cores: u64, runtime: f64) -> Job {
        Job { submitted_at, cores, runtime, estimate: runtime }
    }

    #[test]
    fn load_is_work_over_what_could_be_done() {
        let workload = Workload::new(vec![job(10.0, 2, 30.0), job(0.0, 4, 5.0)]);
        assert_eq!(workload.jobs()[0].cores, 4);
        assert_eq!(workload.load(16), 80.0 / 10.0 / 16.0);
        let scaled = workload.at_load(1.0, 16);
        assert!((scaled.load(16) - 1.0).abs() < 1e-12);
        assert_eq!(scaled.jobs()[1].estimate, 60.0);
        assert_eq!(workload.up_to(3).jobs().len(), 1);
        assert_eq!(Workload::new(vec![job(0.0, 1, 1.0)]).at_load(1.0, 16).jobs()[0].runtime, 1.0);
    }

    #[test]
    fn estimates_are_between_the_runtime_and_f_times_it() {
        let workload = Workload::new((0..1000).map(|n| job(f64::from(n), 1, 100.0)).collect());
        assert_eq!(workload.with_estimates(1.0, 1), workload);
        let estimates: Vec<f64> =
            workload.with_estimates(3.0, 1).jobs.iter().map(|job| job.estimate).collect();
        assert!(estimates.iter().all(|estimate| (100.0..300.0).contains(estimate)));
        let mean = estimates.iter().sum::<f64>() / 1000.0;
        assert!((mean - 200.0).abs() < 6.0, "{mean}");
    }
}
