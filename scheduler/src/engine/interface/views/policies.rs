//! The policies and their history, as readers see them.

use crate::{policy::Policies, time::Time};

/// Somebody set policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyChange {
    /// When.
    pub at: Time,
    /// Who.
    pub by: String,
    /// What the configuration said then.
    pub configured: Policies,
    /// What they were.
    pub before: Policies,
    /// What they are since.
    pub policies: Policies,
}

/// What policies there are, and how they came about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoliciesView {
    /// What the configuration says.
    pub configured: Policies,
    /// What goes.
    pub policies: Policies,
    /// The last changes, oldest first.
    pub changes: Vec<PolicyChange>,
}
