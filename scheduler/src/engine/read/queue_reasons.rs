//! The reasons for which allocations wait, as readers see them.

use std::collections::BTreeMap;

use crate::{
    engine::{interface::views::QueueReasonView, read::views::Reader},
    ids::PlatformId,
};

impl Reader<'_> {
    /// Returns the reasons that the platform gives for its waiting allocations: first the reasons that call
    /// for action, then the most frequent ones.
    pub(in crate::engine) fn queue_reasons(&self, id: PlatformId) -> Vec<QueueReasonView> {
        let mut views = BTreeMap::<&str, QueueReasonView>::new();
        for (allocation, held) in self.durable.allocations_there(id) {
            let Some(reason) = self.live.queue_reason(allocation, held) else { continue };
            let new = || QueueReasonView {
                reason: reason.words.clone(),
                advice: reason.advice().map(str::to_owned),
                n_allocations: 0,
                since: reason.since,
            };
            let view = views.entry(&reason.words).or_insert_with(new);
            view.n_allocations += 1;
            view.since = view.since.min(reason.since);
        }
        let mut views: Vec<QueueReasonView> = views.into_values().collect();
        views.sort_by_key(|view| (view.advice.is_none(), std::cmp::Reverse(view.n_allocations)));
        views
    }
}
