//! A machine, how it is run, and what a run on it comes to.

use scheduler::{policy::stealing::Stealing, time::Span};

/// How the files of all-pairs lie at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Dealt out, as many to each node.
    Even,
    /// On nodes drawn at random.
    Random,
}

/// A machine and how it is run. [`Setting::default`] has the constants of the reference simulation.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What pilots may take from each other.
    pub policy: Stealing,
    /// Nodes of the machine.
    pub n_nodes: u32,
    /// Tasks that run on a node at a time.
    pub n_threads: u32,
    /// What the network card of a node takes in, bytes a second.
    pub bytes_per_s: f64,
    /// Of a message, one way.
    pub latency: Span,
    /// What a thread spends on a task before it begins.
    pub dispatch: Span,
    /// Whether a node keeps what it fetched.
    pub has_cache: bool,
    /// Of the files of all-pairs.
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
    /// Time that so many bytes take to come in.
    pub fn transfer(&self, bytes: u64) -> Span {
        Span((bytes as f64 / self.bytes_per_s * 1e6).round() as u64)
    }

    /// Threads of all nodes.
    pub fn n_cores(&self) -> u64 {
        u64::from(self.n_nodes) * u64::from(self.n_threads)
    }
}

/// What went over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Inputs that tasks read.
    pub n_inputs: u64,
    /// Those that had to be fetched.
    pub n_fetched: u64,
    /// Of those.
    pub bytes_fetched: u64,
    /// Tasks that were stolen, each time.
    pub n_stolen: u64,
    /// Times that an idle pilot asked others.
    pub n_tries: u64,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Until the last task was done.
    pub makespan_s: f64,
    /// Seconds of all tasks together.
    pub work_s: f64,
    /// The part of the cores' time in which tasks ran.
    pub efficiency: f64,
    /// Tasks of the node that ran most, in ratio to the mean.
    pub most_to_mean: f64,
    /// Over the network.
    pub traffic: Traffic,
}

impl Outcome {
    /// The part of the inputs that were already where they were read.
    pub fn hit_ratio(&self) -> f64 {
        1.0 - self.traffic.n_fetched as f64 / (self.traffic.n_inputs as f64).max(1.0)
    }
}
