//! What a platform was told to take away and has not said that it did: it is told again, and at the manager's end people are
//! told of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use adapters::command::BatchId;
use scheduler::engine::interface::LeftThere;

/// For so long after an order to cancel a listing without the job does not show that it is gone: listings may come from a
/// cache.
const LISTED_WITHIN: Duration = Duration::from_secs(60);

/// The batch jobs of one platform that are to be cancelled. Copies are of the same.
#[derive(Clone, Default)]
pub(crate) struct Uncancelled(Arc<Mutex<Orders>>);

#[derive(Default)]
struct Orders {
    ordered: BTreeMap<BatchId, Ordered>,
    /// Why the last cancellation failed.
    why: Option<String>,
}

#[derive(Clone, Copy)]
struct Ordered {
    /// When the order came last.
    at: Instant,
    /// When the platform took it without a complaint: only a listing shows that it was carried out.
    taken_at: Option<Instant>,
}

impl Uncancelled {
    /// These are to be cancelled.
    pub(crate) fn order(&self, ids: &[BatchId], now: Instant) {
        self.orders().ordered.extend(ids.iter().map(|id| (id.clone(), Ordered { at: now, taken_at: None })));
    }

    /// The platform has said that it cancels them.
    pub(crate) fn taken(&self, ids: &[BatchId], now: Instant) {
        for (_, order) in self.orders().ordered.iter_mut().filter(|(id, _)| ids.contains(id)) {
            order.taken_at = Some(now);
        }
    }

    /// They are cancelled, or gone.
    pub(crate) fn done(&self, ids: &[BatchId]) {
        self.orders().ordered.retain(|id, _| !ids.contains(id));
    }

    /// They could not be cancelled.
    pub(crate) fn failed(&self, why: &str) {
        self.orders().why = Some(why.to_owned());
    }

    /// A listing that was asked for at that time shows those that are there: what is gone is not to be cancelled at the
    /// end, as its id may be another job's by then. One of which the platform has said that it is cancelled, and that does
    /// not wait in its queue any more, is on its way out.
    pub(crate) fn listed(
        &self,
        is_there: impl Fn(&BatchId) -> bool,
        waits: impl Fn(&BatchId) -> bool,
        (asked_at, now): (Instant, Instant),
    ) {
        let is_new = |at: Instant| now.duration_since(at) < LISTED_WITHIN;
        self.orders().ordered.retain(|id, order| match order.taken_at {
            Some(taken_at) => taken_at > asked_at || waits(id),
            None => is_there(id) || is_new(order.at),
        });
    }

    /// All of them.
    pub(crate) fn ids(&self) -> Vec<BatchId> {
        self.orders().ordered.keys().cloned().collect()
    }

    /// Those that the platform has not said to cancel.
    pub(crate) fn open(&self) -> Vec<BatchId> {
        let orders = self.orders();
        let open = orders.ordered.iter().filter(|(_, order)| order.taken_at.is_none());
        open.map(|(id, _)| id.clone()).collect()
    }

    /// What may be left of them when the manager ends, after it has waited for so long.
    pub(crate) fn left(&self, platform: &str, limit: Duration) -> Option<LeftThere> {
        let orders = self.orders();
        let batch_jobs: Vec<BatchId> = orders.ordered.keys().cloned().collect();
        let is_open = orders.ordered.values().any(|order| order.taken_at.is_none());
        let why = match &orders.why {
            _ if !is_open => "the platform said that it cancelled them, and lists them still".to_owned(),
            Some(why) => format!("could not be cancelled: {why}"),
            None => format!("could not be cancelled: the platform did not answer within {limit:?}"),
        };
        (!batch_jobs.is_empty()).then(|| LeftThere { platform: platform.to_owned(), batch_jobs, why })
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Vec<BatchId> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn what_was_not_cancelled_is_left_with_the_reason() {
        let (uncancelled, now) = (Uncancelled::default(), Instant::now());
        uncancelled.order(&ids(&["1", "2", "3"]), now);
        let left = uncancelled.left("cl", Duration::from_secs(5)).expect("all of them");
        assert_eq!((left.platform.as_str(), left.batch_jobs), ("cl", ids(&["1", "2", "3"])));
        assert!(left.why.contains("did not answer within 5s"), "{}", left.why);
        uncancelled.done(&ids(&["2"]));
        uncancelled.failed("scancel: error: Access/permission denied");
        let left = uncancelled.left("cl", Duration::from_secs(5)).expect("the others");
        assert_eq!(left.batch_jobs, ids(&["1", "3"]));
        assert!(left.why.contains("permission denied"), "{}", left.why);
        uncancelled.done(&ids(&["1", "3"]));
        assert_eq!(uncancelled.left("cl", Duration::ZERO), None);
    }

    #[test]
    fn a_listing_without_a_job_shows_that_it_is_gone_only_after_a_minute() {
        let (uncancelled, now) = (Uncancelled::default(), Instant::now());
        uncancelled.order(&ids(&["1", "2"]), now);
        let at = |seconds| (now + Duration::from_secs(seconds), now + Duration::from_secs(seconds));
        uncancelled.listed(|_| false, |_| false, at(59));
        assert_eq!(uncancelled.ids(), ids(&["1", "2"]), "the listing may come from a cache");
        uncancelled.listed(|id| id == "2", |_| false, at(60));
        assert_eq!(uncancelled.ids(), ids(&["2"]));
    }

    #[test]
    fn a_cancellation_that_succeeded_is_believed_when_a_listing_after_it_does_not_show_the_job_waiting() {
        let (uncancelled, now) = (Uncancelled::default(), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        uncancelled.order(&ids(&["1", "2", "3", "4"]), now);
        uncancelled.taken(&ids(&["1", "2", "3"]), later(1));
        assert_eq!(uncancelled.open(), ids(&["4"]));
        uncancelled.listed(|_| true, |_| false, (now, later(2)));
        assert_eq!(uncancelled.ids().len(), 4, "that listing is older");
        // The second is on its way out, the third is gone.
        uncancelled.listed(|id| id != "3", |id| id == "1", (later(2), later(3)));
        assert_eq!(uncancelled.ids(), ids(&["1", "4"]));
        uncancelled.done(&ids(&["4"]));
        let left = uncancelled.left("cl", Duration::from_secs(5)).expect("one");
        assert_eq!(left.batch_jobs, ids(&["1"]));
        assert!(left.why.contains("lists them still"), "{}", left.why);
        // It is to be cancelled again.
        uncancelled.order(&ids(&["1"]), later(4));
        assert_eq!(uncancelled.open(), ids(&["1"]));
    }
}
