//! Sets policies for operators.

use crate::{
    engine::{
        interface::{RequestId, answer::Answer, refusal::Refusal},
        record::Record,
        turn::Turn,
    },
    policy::Policies,
};

impl Turn<'_> {
    /// Returns the policies in force.
    pub(in crate::engine) fn policies(&self) -> Policies {
        self.durable.policies(self.settings.policies)
    }

    /// Sets policies for an operator. Non-preemptive: pilots keep the tasks that they hold.
    pub(in crate::engine) fn set_policies(
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
            self.live.drop_guide();
            if policies.stealing != before.stealing {
                self.tell_all_stealing(policies.stealing);
            }
            if policies.bundling != before.bundling {
                self.live.jobs.values_mut().for_each(|leases| leases.by_size = None);
            }
            self.stir_platforms();
            self.live.stir_all();
        }
        let view = self.durable.policies_view(self.settings.policies);
        self.answer(request, Answer::Policies(Box::new(view)));
    }
}
