//! The input of a run: nodes, applications and jobs, drawn as paper 002, section 5.1, describes, and by our
//! choice where it does not.

use scheduler::{
    policy::{
        bundling::by_estimate::{Estimates, Taker},
        matching::application::{Importance, degree},
    },
    rng::Rng,
};

use super::draws::{BoundedPareto, times};
use crate::draw;

/// The parameters of a scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Number of nodes.
    pub n_nodes: usize,
    /// Number of applications.
    pub n_applications: usize,
    /// Number of jobs, all submitted at the start, each of any application.
    pub n_jobs: usize,
    /// Fewest and most tasks of a job; all numbers between have equal probability.
    pub n_tasks: (u64, u64),
    /// Processors of a node, each number with equal probability.
    pub n_processors: &'static [u32],
    /// Variation of an application's times over the nodes: standard deviation divided by mean.
    pub v_machine: f64,
    /// Variation of the mean times of the applications.
    pub v_application: f64,
}

/// Seconds to bring a bundle to a node (T_trans); chosen.
pub const TRANSFER_S: f64 = 0.5;
/// A task's estimate, in seconds at a rate of 1: bounds and mean of the power law; chosen.
const ESTIMATE: (f64, f64, f64) = (1.0, 1000.0, 100.0);
/// Processors of a node; chosen.
pub const N_PROCESSORS: &[u32] = &[4, 8];

/// Nodes, applications and jobs.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Rates and degrees of parallelism of applications on nodes.
    pub importance: Importance,
    /// Processors of each node.
    pub n_processors: Vec<u32>,
    /// Seconds to set up the environment of each application (T_env).
    pub environment_s: Vec<f64>,
    /// All jobs.
    pub jobs: Vec<Job>,
}

/// A job, submitted at the start.
#[derive(Clone, Debug)]
pub struct Job {
    /// The application of its tasks.
    pub application: usize,
    /// Runtimes of its tasks, in seconds at a rate of 1; the estimates are exact.
    pub tasks: Estimates,
}

impl Scene {
    /// Draws a scene; equal seeds give equal scenes.
    pub fn draw(setting: &Setting, seed: u64) -> Scene {
        let mut luck = Rng::new(seed);
        let times = times(
            &mut luck,
            setting.n_applications,
            setting.n_nodes,
            setting.v_application,
            setting.v_machine,
        );
        let rates: Vec<Vec<f64>> =
            times.into_iter().map(|row| row.into_iter().map(|time| 100.0 / time).collect()).collect();
        let n_processors: Vec<u32> = (0..setting.n_nodes).map(|_| luck.pick(setting.n_processors)).collect();
        let data_shares: Vec<f64> = (0..setting.n_applications).map(|_| draw::uniform(&mut luck)).collect();
        let degrees = |share: &f64| n_processors.iter().map(|n| degree(*share, *n)).collect();
        let degrees: Vec<Vec<u32>> = data_shares.iter().map(degrees).collect();
        let law = BoundedPareto::of_mean(ESTIMATE.0, ESTIMATE.1, ESTIMATE.2);
        let job = |_| {
            let application = luck.below(setting.n_applications as u64) as usize;
            let n_tasks = luck.between(setting.n_tasks.0, setting.n_tasks.1);
            let tasks = (0..n_tasks).map(|_| law.draw(&mut luck)).collect();
            Job { application, tasks }
        };
        Scene {
            jobs: (0..setting.n_jobs).map(job).collect(),
            importance: Importance::new(&rates, &degrees),
            environment_s: data_shares.into_iter().map(environment_s).collect(),
            n_processors,
        }
    }

    /// Returns the number of tasks.
    pub fn n_tasks(&self) -> u64 {
        self.jobs.iter().map(|job| job.tasks.n_tasks()).sum()
    }

    /// Returns a node as taker of an application's tasks, of a job on which `n_sharing` processors work.
    pub(super) fn taker(&self, application: usize, node: usize, n_sharing: u64) -> Taker {
        Taker {
            n_bins: self.importance.degree(application, node),
            rate: self.importance.rate(application, node),
            transfer_s: TRANSFER_S,
            environment_s: self.environment_s[application],
            n_sharing,
        }
    }
}

/// Returns the seconds to set up the environment of an application, by the part of its time that goes to data
/// (the paper's gamma): up to 10 s, half of it at 0.5.
fn environment_s(data_share: f64) -> f64 {
    10.0 / (1.0 + (-(data_share - 0.5) / 0.1).exp())
}
