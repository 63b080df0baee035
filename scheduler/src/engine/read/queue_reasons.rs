//! Reasons for which allocations wait, for readers.

use std::collections::BTreeMap;

use crate::{
    engine::{interface::views::QueueReasonView, read::views::Reader},
    ids::PlatformId,
};

impl Reader<'_> {
    /// Why allocations of the platform wait, as it says: those with something to be done first, then the most.
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
