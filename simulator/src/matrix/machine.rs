//! A machine, its settings, and the result of a run on it.

use scheduler::{policy::stealing::Stealing, time::Span};

/// The placement of the files of all-pairs at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Equal numbers on each node.
    Even,
    /// On nodes drawn at random.
    Random,
}

/// A machine and its settings. [`Setting::default`] has the constants of the reference simulation.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The stealing policy of the pilots.
    pub policy: Stealing,
    /// Number of nodes.
    pub n_nodes: u32,
    /// Number of tasks that run on a node at a time.
    pub n_threads: u32,
    /// Bytes per second that the network card of a node receives.
    pub bytes_per_s: f64,
    /// Latency of a message, one way.
    pub latency: Span,
    /// Time that a thread spends on a task before it begins.
    pub dispatch: Span,
    /// Whether a node keeps fetched data.
    pub has_cache: bool,
    /// The placement of the files of all-pairs.
    pub placement: Placement,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            policy: Stealing::None,
            n_nodes: 1,
            n_threads: 2,
            bytes_per_s: 125e6,
            latency: Span(500),
            dispatch: Span::from_millis(1),
            has_cache: true,
            placement: Placement::Even,
        }
    }
}

impl Setting {
    /// Returns the time in which `bytes` bytes come in.
    pub fn transfer(&self, bytes: u64) -> Span {
        Span((bytes as f64 / self.bytes_per_s * 1e6).round() as u64)
    }

    /// Returns the number of threads of all nodes.
    pub fn n_cores(&self) -> u64 {
        u64::from(self.n_nodes) * u64::from(self.n_threads)
    }
}

/// The traffic of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of inputs that tasks read.
    pub n_inputs: u64,
    /// Number of inputs that had to be fetched.
    pub n_fetched: u64,
    /// Bytes that had to be fetched.
    pub bytes_fetched: u64,
    /// Number of times that a task was stolen.
    pub n_stolen: u64,
    /// Number of times that an idle pilot asked others.
    pub n_tries: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Seconds until the last task ended.
    pub makespan_s: f64,
    /// Seconds of all tasks together.
    pub work_s: f64,
    /// The part of the cores' time in which tasks ran.
    pub efficiency: f64,
    /// Tasks of the node that ran most, divided by the mean.
    pub most_to_mean: f64,
    /// The traffic of the network.
    pub traffic: Traffic,
}

impl Outcome {
    /// Returns the part of the inputs that were already at the node that read them.
    pub fn hit_ratio(&self) -> f64 {
        1.0 - self.traffic.n_fetched as f64 / (self.traffic.n_inputs as f64).max(1.0)
    }
}
