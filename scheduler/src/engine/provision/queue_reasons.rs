//! The reasons that platforms give for waiting allocations: each is shown until the allocation starts, and
//! notified once.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        interface::{notice::Notice, platform::allocation::ListedAllocation},
        live::{Live, platform::queue_reasons::QueueReason},
        state::{allocation::Allocation, durable::Durable},
        turn::Turn,
    },
    ids::{AllocationId, PlatformId},
    queue_reason::Outlook,
    time::{Span, Time},
};

/// An allocation that has been held for this long is not waited for any more.
const HELD_LIMIT: Span = Span::from_secs(600);

impl Turn<'_> {
    /// Takes in the platform's reasons for waiting allocations. Reasons of allocations that have started,
    /// ended or are no longer listed are dropped.
    pub(in crate::engine) fn note_queue_reasons(&mut self, id: PlatformId, listed: &[ListedAllocation]) {
        let mut now = BTreeMap::new();
        for entry in listed.iter().filter(|entry| !entry.is_ended && !entry.is_running) {
            let held = self.durable.allocation_of(&entry.tag);
            let held = held.filter(|(_, held)| held.may_be_there() && held.is_unused());
            let words = entry.trouble.as_ref().or(entry.reason.as_ref());
            if let (Some((allocation, held)), Some(words)) = (held, words) {
                now.insert(allocation, (held.platform, words.clone(), entry.trouble.is_some()));
            }
        }
        let is_of_it = |durable: &Durable, allocation: &AllocationId| {
            durable.allocations().get(allocation).is_none_or(|held| held.platform == id)
        };
        let durable = &*self.durable;
        let Live { queue_reasons, held_for_long, .. } = &mut *self.live;
        queue_reasons.retain(|allocation, _| now.contains_key(allocation) || !is_of_it(durable, allocation));
        held_for_long.retain(|allocation| queue_reasons.contains_key(allocation));
        for (allocation, (platform, words, is_stuck)) in now {
            let known = self.live.queue_reasons.get(&allocation);
            let is_held = Outlook::of(&words).is_hold();
            let held_since = known.and_then(|known| known.held_since).unwrap_or(self.now);
            let is_given_up = is_held && self.now.since(held_since) >= HELD_LIMIT;
            let held_since = is_held.then_some(held_since);
            let was_given_up = known.is_some_and(|known| known.is_given_up);
            let (since, mut told) = match known {
                Some(known) if known.words == words => (known.since, known.told.clone()),
                Some(known) => (self.now, known.told.clone()),
                None => (self.now, BTreeSet::new()),
            };
            let is_new = told.insert(words.clone()) || (is_given_up && !was_given_up);
            let reason = QueueReason { words: words.clone(), since, held_since, is_given_up, is_stuck, told };
            let (advice, is_endless) = (reason.advice(), reason.is_endless());
            self.live.queue_reasons.insert(allocation, reason);
            match is_given_up {
                true => self.live.held_for_long.insert(allocation),
                false => self.live.held_for_long.remove(&allocation),
            };
            if let Some(advice) = advice.filter(|_| is_new) {
                let name = self.durable.platforms().get(&platform).map(|spec| spec.name.clone());
                let batch_id =
                    self.durable.allocations().get(&allocation).and_then(|held| held.batch_id.clone());
                self.notify(Notice::AllocationWaits {
                    platform: name.unwrap_or_default(),
                    allocation,
                    batch_id: batch_id.unwrap_or_default(),
                    reason: words,
                    advice: advice.to_owned(),
                    is_endless,
                });
            }
        }
    }
}

impl Live {
    /// Returns the platform's reason for the wait of the allocation.
    pub fn queue_reason(&self, id: AllocationId, held: &Allocation) -> Option<&QueueReason> {
        self.queue_reasons.get(&id).filter(|_| held.may_be_there() && held.is_unused())
    }

    /// Returns allocations of the platform that have been held for so long that they are not waited for.
    /// Allocations that were requested in their place and are held, too, are waited for: the platform holds
    /// all requests.
    pub(in crate::engine) fn given_up(&self, durable: &Durable, id: PlatformId) -> BTreeSet<AllocationId> {
        let held = self.held_for_long.iter().filter_map(|allocation| {
            let reason = self.queue_reasons.get(allocation).filter(|reason| reason.is_given_up)?;
            let held = durable.allocations().get(allocation)?;
            let is_of_it = held.platform == id && held.is_live() && held.is_unused();
            is_of_it.then_some((*allocation, held.intended_at, reason.held_since? + HELD_LIMIT))
        });
        let held: Vec<(AllocationId, Time, Time)> = held.collect();
        let first = held.iter().map(|(_, _, given_up_at)| *given_up_at).min();
        let is_first = |intended_at: Time| first.is_some_and(|first| intended_at < first);
        held.iter().filter(|(_, at, _)| is_first(*at)).map(|(allocation, ..)| *allocation).collect()
    }
}
