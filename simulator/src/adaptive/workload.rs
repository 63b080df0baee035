//! Workloads of paper 003: jobs of the applications of a condition that arrive in a pattern.

use scheduler::{policy::distribution::Weights, rng::Rng};

use super::world::{CLOUD, CLUSTER, Condition, Nature, Pace};
use crate::{draw, pattern::Pattern};

/// Number of jobs of a workload.
const N_JOBS: usize = 100;
/// Number of tasks of all jobs.
pub const N_TASKS: u64 = 100_000;

/// A job that will arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Index of its application.
    pub application: usize,
    /// Number of tasks.
    pub n_tasks: u64,
    /// Time of arrival, in seconds.
    pub at: f64,
}

/// The parameters of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The pattern of arrivals.
    pub pattern: Pattern,
    /// The set of applications.
    pub condition: Condition,
    /// The arriving work divided by the work that both platforms together can do in that time, with one vCPU
    /// per core.
    pub load: f64,
}

impl Cell {
    /// Returns the cells of the paper's four patterns and three conditions at these loads.
    pub fn all(loads: &[f64]) -> Vec<Cell> {
        let of_load = |load: f64| {
            let of_condition = move |condition: Condition| {
                Pattern::ALL.into_iter().map(move |pattern| Cell { pattern, condition, load })
            };
            Condition::ALL.into_iter().flat_map(of_condition)
        };
        loads.iter().copied().flat_map(of_load).collect()
    }

    /// Returns its jobs for this seed: sizes between half and one and a half times the mean, applications in
    /// random order but equally often, times within the pattern.
    pub fn jobs(self, seed: u64) -> Vec<Job> {
        let mut luck = Rng::of(seed, &[N_TASKS]);
        let sizes: Vec<f64> = (0..N_JOBS).map(|_| luck.between(500, 1500) as f64).collect();
        let sizes = Weights::of(&sizes).unwrap_or_else(|| Weights::equal(N_JOBS)).split(N_TASKS);
        let applications = shuffled(self.condition.applications(), &mut luck);
        let work = |(slice, application): (&std::ops::Range<u64>, &usize)| {
            let together = [CLUSTER, CLOUD]
                .map(|platform| Pace::of(*application, platform, 1.0, Nature::Cores).attempts);
            (slice.end - slice.start) as f64 / together.iter().sum::<f64>()
        };
        let seconds: f64 = sizes.iter().zip(&applications).map(work).sum();
        let arrivals = self.pattern.arrivals(N_JOBS, seconds / self.load, &mut luck);
        let jobs = sizes.into_iter().zip(applications).zip(arrivals);
        jobs.map(|((slice, application), at)| Job { application, n_tasks: slice.end - slice.start, at })
            .collect()
    }
}

/// Returns an application for each job, each equally often, in random order.
fn shuffled(applications: &[usize], luck: &mut Rng) -> Vec<usize> {
    let mut all: Vec<usize> = applications.iter().copied().cycle().take(N_JOBS).collect();
    draw::shuffle(&mut all, luck);
    all
}

#[cfg(test)]
mod tests {
    use super::{Cell, Condition, N_JOBS, N_TASKS, Pattern};

    #[test]
    fn a_workload_has_all_its_tasks_and_a_seed_of_its_own() {
        let cell = Cell { pattern: Pattern::OnAndOff, condition: Condition::Mixed, load: 0.9 };
        let jobs = cell.jobs(3);
        assert_eq!(jobs.iter().map(|job| job.n_tasks).sum::<u64>(), N_TASKS);
        for application in 0..4 {
            let n = jobs.iter().filter(|job| job.application == application).count();
            assert_eq!(n, N_JOBS / 4);
        }
        assert_eq!(jobs, cell.jobs(3));
        assert_ne!(jobs, cell.jobs(4));
        assert_eq!(Cell::all(&[0.9, 1.1]).len(), 24);
    }
}
