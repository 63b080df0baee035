//! The policies and their history, as readers see them.

use crate::{policy::Policies, time::Time};

/// A change of the policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyChange {
    /// The time of the change.
    pub at: Time,
    /// The operator who made it.
    pub by: String,
    /// The policies in the configuration at that time.
    pub configured: Policies,
    /// The policies before the change.
    pub before: Policies,
    /// The policies after the change.
    pub policies: Policies,
}

/// The policies and their history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoliciesView {
    /// The policies in the configuration.
    pub configured: Policies,
    /// The policies in force.
    pub policies: Policies,
    /// The last changes, oldest first.
    pub changes: Vec<PolicyChange>,
}
