//! The policies that operators have set, and their history.

use crate::{
    engine::{
        interface::views::policies::{PoliciesView, PolicyChange},
        state::durable::Durable,
    },
    policy::Policies,
};

/// Changes that are remembered.
const N_CHANGES_MAX: usize = 100;

impl Durable {
    /// The policies that go, where the configuration says these.
    pub fn policies(&self, configured: Policies) -> Policies {
        let last = self.policy_changes().last().filter(|change| change.configured == configured);
        last.map_or(configured, |change| change.policies)
    }

    /// All of them, where the configuration says these.
    pub(in crate::engine) fn policies_view(&self, configured: Policies) -> PoliciesView {
        let policies = self.policies(configured);
        PoliciesView { configured, policies, changes: self.policy_changes().to_vec() }
    }
}

/// One more change; of many the oldest is forgotten.
pub(in crate::engine) fn remember(changes: &mut Vec<PolicyChange>, change: PolicyChange) {
    if changes.len() >= N_CHANGES_MAX {
        changes.remove(0);
    }
    changes.push(change);
}
