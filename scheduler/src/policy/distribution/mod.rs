//! Distribution: the part of a job's tasks that is meant for each platform.
//!
//! When a job comes, the weights of its application cut its tasks into a slice for each platform
//! ([`Weights::split`]). Later observations of queues, errors and rates move the weights of the jobs that
//! come later (paper 003). An application without a profile is divided by cores, our reading of the default
//! branch of Algorithm 1.

mod adaptive;
mod adaptive_2016;
mod core_based;
mod fill;
mod goodput;
pub mod joint;
mod matrix;
mod profile;
mod weights;

use serde::{Deserialize, Serialize};

pub use adaptive_2016::{Adjusted, LoadAndError};
pub use goodput::Goodput;
pub use matrix::{Ragged, WeightMatrix};
pub use weights::{NoWeights, Shifted, Weights};

use super::{none_or::Worded, table::Table};

/// Runtime of a task in seconds while no runtime of any application is known. Any number would do: it
/// estimates the length of a queue only until the first measurement.
pub const RUNTIME_UNKNOWN_S: f64 = 60.0;

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// By cores: see `core_based.rs`.
    CoreBased,
    /// By profiled rates, fixed: see `profile.rs`.
    Profile,
    /// From profiled rates, moved by load and errors as published: see `adaptive_2016.rs`.
    #[serde(rename = "adaptive-2016")]
    Adaptive2016,
    /// All platforms finish at the same time: see `adaptive.rs`.
    #[default]
    Adaptive,
}

impl Worded for Distribution {
    const WORDS: &'static [&'static str] = &["none", "core-based", "profile", "adaptive-2016", "adaptive"];
    const POLICIES: &'static [Distribution] =
        &[Distribution::CoreBased, Distribution::Profile, Distribution::Adaptive2016, Distribution::Adaptive];
}

/// Constants of the policies. The paper gives none of them; these are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The weight that [`Distribution::Adaptive2016`] moves at a time (the paper's Delta).
    pub delta: f64,
    /// Number of last jobs behind its threshold (the paper's m).
    pub n_jobs: usize,
    /// Seconds of measurement that weigh, for [`Distribution::Adaptive`], as much as all earlier ones.
    pub memory_s: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { delta: 0.1, n_jobs: 5, memory_s: 300.0 }
    }
}

/// The knowledge before anything has run.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Cores of each platform.
    pub cores: &'a [u64],
    /// Seconds that a task of each application (row) takes on one core of each platform (column); `None`:
    /// there is no profile. A value not above 0 counts as `None`.
    pub runtimes: &'a Table<Option<f64>>,
}

impl Known<'_> {
    /// Returns the tasks per second of each application (row) that each platform (column) finishes with all
    /// its cores. An unknown runtime is taken as the mean of the known ones of its row, else of the table.
    pub fn rates(&self) -> Table<f64> {
        let of_row = |row: usize| mean(self.runtimes.row(row));
        let of_all = mean(&self.runtimes.rows().flatten().copied().collect::<Vec<_>>());
        self.runtimes.map_places(|row, platform| {
            let known = self.runtimes.at(row, platform).filter(|runtime| is_runtime(*runtime));
            let runtime = known.or_else(|| of_row(row)).or(of_all).unwrap_or(RUNTIME_UNKNOWN_S);
            self.cores[platform] as f64 / runtime
        })
    }
}

fn is_runtime(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0
}

fn mean(runtimes: &[Option<f64>]) -> Option<f64> {
    let known: Vec<f64> = runtimes.iter().flatten().copied().filter(|seconds| is_runtime(*seconds)).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// A measurement of a platform's work for an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Index of the application.
    pub application: usize,
    /// Index of the platform.
    pub platform: usize,
    /// Number of tasks finished for good.
    pub n_finished: f64,
    /// Core-seconds spent on them and on failed attempts, divided by the platform's cores: seconds of the
    /// whole platform.
    pub platform_s: f64,
}

/// Divides jobs over platforms, and learns: the policy with its state. It uses no time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distributor(Law);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Law {
    Fixed(WeightMatrix),
    LoadAndError(LoadAndError),
    EqualFinish(Goodput),
}

impl Distributor {
    /// Makes the state before the first job.
    ///
    /// # Panics
    /// The runtimes do not have a column for each platform.
    pub fn new(policy: Distribution, settings: &Settings, known: &Known<'_>) -> Distributor {
        assert_eq!(known.runtimes.n_columns(), known.cores.len(), "runtimes have a column for each platform");
        Distributor(match policy {
            Distribution::CoreBased => Law::Fixed(core_based::matrix(known)),
            Distribution::Profile => Law::Fixed(profile::matrix(known)),
            Distribution::Adaptive2016 => {
                let initial = profile::matrix(known);
                Law::LoadAndError(LoadAndError::new(initial, settings.delta, settings.n_jobs))
            }
            Distribution::Adaptive => Law::EqualFinish(Goodput::new(known, settings.memory_s)),
        })
    }

    /// Returns the weights for a job of `n_tasks` tasks of an application. `queued`: tasks of each
    /// application (row) that each platform (column) has not finished, without the tasks of this job.
    ///
    /// # Panics
    /// The application has no row, or the table has another shape.
    pub fn weights(&self, application: usize, n_tasks: u64, queued: &Table<u64>) -> Weights {
        match &self.0 {
            Law::Fixed(matrix) => matrix.row(application).clone(),
            Law::LoadAndError(law) => law.matrix().row(application).clone(),
            Law::EqualFinish(goodput) => adaptive::weights(goodput, application, n_tasks, queued),
        }
    }

    /// Notes that a job of `n_tasks` tasks was divided. `queued`: as for [`Distributor::weights`], with this
    /// job's tasks.
    pub fn submitted(&mut self, n_tasks: u64, queued: &Table<u64>) -> Adjusted {
        match &mut self.0 {
            Law::Fixed(_) | Law::EqualFinish(_) => Adjusted::Kept,
            Law::LoadAndError(law) => {
                let of_platform = |platform| queued.rows().map(|row| row[platform]).sum();
                law.remember(n_tasks);
                law.load(&(0..queued.n_columns()).map(of_platform).collect::<Vec<u64>>())
            }
        }
    }

    /// Notes that the vCPUs per core were raised on these platforms (see `scaling`).
    pub fn scaled_up(&mut self, has_risen: &[bool]) -> Adjusted {
        match &mut self.0 {
            Law::Fixed(_) | Law::EqualFinish(_) => Adjusted::Kept,
            Law::LoadAndError(law) => Adjusted::Moved { n_clamped: law.error(has_risen) },
        }
    }

    /// Notes that tasks were finished.
    pub fn finished(&mut self, measured: &Measured) {
        match &mut self.0 {
            Law::Fixed(_) | Law::LoadAndError(_) => {}
            Law::EqualFinish(goodput) => goodput.learn(measured),
        }
    }
}

#[cfg(test)]
mod tests;
