//! Runtimes of tasks by co-runners.

use serde::{Deserialize, Serialize};

/// The co-runners of a task, by application.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoRunners {
    /// None: nothing else runs on the node (the paper's OneCore).
    Nobody,
    /// Tasks of these other applications, sorted, and maybe of its own fill all cores of the node. An empty
    /// list is the paper's AllCore.
    Full(Vec<String>),
}

impl CoRunners {
    /// Returns whether tasks of the other application are among them.
    pub fn has(&self, application: &str) -> bool {
        matches!(self, CoRunners::Full(others) if others.iter().any(|other| other == application))
    }
}

/// Successful attempts of an application on a platform that had the same co-runners from start to end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CoRunTimes {
    /// The application.
    pub application: String,
    /// The co-runners.
    pub company: CoRunners,
    /// Number of attempts.
    pub n: u64,
    /// The sum of their runtimes, in microseconds.
    pub wall_us: u64,
}
