//! Times of tasks beside those of others on their nodes.

use serde::{Deserialize, Serialize};

/// The applications beside which a task runs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoRunners {
    /// On a node where nothing else runs: the paper's OneCore.
    Nobody,
    /// On a node whose cores are in use, by these other applications and maybe its own, in order. None of them: the
    /// paper's AllCore.
    Full(Vec<String>),
}

impl CoRunners {
    /// Whether tasks of that other application are in it.
    pub fn has(&self, application: &str) -> bool {
        matches!(self, CoRunners::Full(others) if others.iter().any(|other| other == application))
    }
}

/// Successes of an application on a platform that had the same company from their beginning to their end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CoRunTimes {
    /// Which application.
    pub application: String,
    /// Its company.
    pub company: CoRunners,
    /// How many.
    pub n: u64,
    /// Their wall time together, microseconds.
    pub wall_us: u64,
}
