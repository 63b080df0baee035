//! Policies that operators set while the manager runs. They go on after a restart, until the configuration says
//! something else than it did then.

use super::{
    Turn,
    durable::Durable,
    interface::{Answer, Refusal, RequestId},
    record::Record,
};
use crate::{policy::Policies, time::Time};

/// Changes that are remembered.
const N_CHANGES_MAX: usize = 100;

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

impl Durable {
    /// The policies that go, where the configuration says these.
    pub fn policies(&self, configured: Policies) -> Policies {
        let last = self.policy_changes().last().filter(|change| change.configured == configured);
        last.map_or(configured, |change| change.policies)
    }

    /// All of them, where the configuration says these.
    pub(super) fn policies_view(&self, configured: Policies) -> PoliciesView {
        let policies = self.policies(configured);
        PoliciesView { configured, policies, changes: self.policy_changes().to_vec() }
    }
}

/// One more change; of many the oldest is forgotten.
pub(super) fn remember(changes: &mut Vec<PolicyChange>, change: PolicyChange) {
    if changes.len() >= N_CHANGES_MAX {
        changes.remove(0);
    }
    changes.push(change);
}

impl Turn<'_> {
    /// The policies that go.
    pub(super) fn policies(&self) -> Policies {
        self.durable.policies(self.settings.policies)
    }

    /// An operator wants other policies. Non-preemptive: what pilots hold they keep.
    pub(super) fn set_policies(
        &mut self,
        request: RequestId,
        by: String,
        before: Policies,
        policies: Policies,
    ) {
        if before != self.policies() {
            return self.refuse(request, Refusal::PoliciesChanged);
        }
        if policies != before {
            let configured = self.settings.policies;
            self.record(Record::PoliciesSet { by, configured, before, policies, at: self.now });
            self.volatile.drop_guide();
            if policies.stealing != before.stealing {
                self.tell_all_stealing(policies.stealing);
            }
            if policies.bundling != before.bundling {
                self.volatile.jobs.values_mut().for_each(|leases| leases.by_size = None);
            }
            self.stir_platforms();
            self.volatile.stir_all();
        }
        let view = self.durable.policies_view(self.settings.policies);
        self.answer(request, Answer::Policies(Box::new(view)));
    }
}
