//! The weights as readers see them: the part of an application's tasks that is meant for each platform, the
//! numbers behind it, and its history.

use crate::{
    engine::{interface::views::weights::WeightsView, live::plan::weight_changes::view, read::views::Reader},
    policy::{distribution::Distribution, none_or},
    time::Span,
};

impl Reader<'_> {
    /// Returns all weights.
    pub(in crate::engine) fn weights(&self) -> WeightsView {
        let quotas = &self.live.plan.quotas;
        let name = |id| self.durable.platform_name(id);
        let law = self.durable.policies(self.settings.policies).distribution;
        let is_known = law == Some(Distribution::Adaptive) && !quotas.rows.is_empty();
        WeightsView {
            policy: none_or::to_word(law).to_owned(),
            last_end: is_known.then_some(Span::from_secs_f64(quotas.last_end_s)),
            kinds: quotas.rows.iter().map(|row| view(quotas, row, self.now, &name)).collect(),
            history: self.durable.weights().changes().cloned().collect(),
        }
    }
}
