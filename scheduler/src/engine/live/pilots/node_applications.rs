//! The applications whose tasks share a node.

use crate::{engine::record::co_runners::CoRunners, time::Time};

/// The applications whose tasks are on a node, if they teach something about co-runners: one task alone, or a
/// full node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeApplications {
    /// The applications, sorted.
    pub(in crate::engine) applications: Vec<String>,
    pub(in crate::engine) is_alone: bool,
    pub(in crate::engine) since: Time,
}

impl NodeApplications {
    /// Returns the co-runners of a task of one of the applications.
    pub(in crate::engine) fn company_of(&self, application: &str) -> CoRunners {
        match self.is_alone {
            true => CoRunners::Nobody,
            false => CoRunners::Full(
                self.applications.iter().filter(|other| *other != application).cloned().collect(),
            ),
        }
    }
}
