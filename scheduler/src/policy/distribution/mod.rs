//! Distribution: which share of a job's tasks is meant for which platform.
//!
//! When a job comes, the weights of its application cut its tasks into a slice for each platform
//! ([`Weights::split`]). What is learned afterwards, from queues, errors and rates, moves the weights of the
//! jobs that come later (paper 003). An application that nothing is known of is divided by cores, the
//! default branch of Algorithm 1 as we read it.

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

/// Seconds of a task while no runtime of any application is known. Any number would do: it says how long a
/// queue lasts only until the first measurement.
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

/// Constants of the laws. The paper gives none of them; these are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Weight that [`Distribution::Adaptive2016`] moves at a time (the paper's Delta).
    pub delta: f64,
    /// Jobs that its threshold looks back on (the paper's m).
    pub n_jobs: usize,
    /// Seconds of measuring that count for [`Distribution::Adaptive`] as much as all before.
    pub memory_s: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { delta: 0.1, n_jobs: 5, memory_s: 300.0 }
    }
}

/// What is known before anything has run.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Cores of each platform.
    pub cores: &'a [u64],
    /// Seconds that a task of each application (row) takes on one core of each platform (column); `None`
    /// where there is no profile. What is not above 0 counts as none.
    pub runtimes: &'a Table<Option<f64>>,
}

impl Known<'_> {
    /// Tasks a second of each application (row) that each platform (column) finishes with all its cores.
    /// What is not known is the mean of what is, in the row, else in the table.
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

/// What a platform did for an application in some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Row.
    pub application: usize,
    /// Column.
    pub platform: usize,
    /// Tasks finished for good.
    pub n_finished: f64,
    /// Core-seconds spent on them and on failed attempts, by the platform's cores: for how long all of the
    /// platform was at it.
    pub platform_s: f64,
}

/// Divides jobs over platforms, and learns: the policy with its state. Time does not enter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distributor(Law);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Law {
    Fixed(WeightMatrix),
    LoadAndError(LoadAndError),
    EqualFinish(Goodput),
}

impl Distributor {
    /// Before the first job.
    ///
    /// # Panics
    /// Runtimes without a column for each platform.
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

    /// The weights for a job of so many tasks of an application. `queued`: tasks of each application (row)
    /// that each platform (column) has not finished, those of this job not among them.
    ///
    /// # Panics
    /// An application without a row, or a table of another shape.
    pub fn weights(&self, application: usize, n_tasks: u64, queued: &Table<u64>) -> Weights {
        match &self.0 {
            Law::Fixed(matrix) => matrix.row(application).clone(),
            Law::LoadAndError(law) => law.matrix().row(application).clone(),
            Law::EqualFinish(goodput) => adaptive::weights(goodput, application, n_tasks, queued),
        }
    }

    /// A job of so many tasks was divided; `queued` as above, this job's among them.
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

    /// The vCPUs of a core were raised on these platforms (see `scaling`).
    pub fn scaled_up(&mut self, has_risen: &[bool]) -> Adjusted {
        match &mut self.0 {
            Law::Fixed(_) | Law::EqualFinish(_) => Adjusted::Kept,
            Law::LoadAndError(law) => Adjusted::Moved { n_clamped: law.error(has_risen) },
        }
    }

    /// Tasks were finished.
    pub fn finished(&mut self, measured: &Measured) {
        match &mut self.0 {
            Law::Fixed(_) | Law::LoadAndError(_) => {}
            Law::EqualFinish(goodput) => goodput.learn(measured),
        }
    }
}

#[cfg(test)]
mod tests;
