//! The applications whose tasks share a node.

use crate::{engine::record::co_runners::CoRunners, time::Time};

/// Whose tasks are on a node, where something is to be learned from that: one task alone, or a full node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeApplications {
    /// In order.
    pub(in crate::engine) applications: Vec<String>,
    pub(in crate::engine) is_alone: bool,
    pub(in crate::engine) since: Time,
}

impl NodeApplications {
    /// What one of its applications has for company.
    pub(in crate::engine) fn company_of(&self, application: &str) -> CoRunners {
        match self.is_alone {
            true => CoRunners::Nobody,
            false => CoRunners::Full(
                self.applications.iter().filter(|other| *other != application).cloned().collect(),
            ),
        }
    }
}
