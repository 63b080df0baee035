//! What users have under way at a time: requests, event streams, connections, submissions. It is counted by the user's
//! name, however many tokens the user has.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::api::http::error::ApiError;
use crate::quotas::Kind;

type Counted = HashMap<(String, Kind), u64>;

/// All that is under way.
#[derive(Clone, Debug, Default)]
pub(in crate::api) struct Counts(Arc<Mutex<Counted>>);

/// A part of it, counted until it is dropped.
#[derive(Debug)]
pub(in crate::api) struct Share {
    counts: Counts,
    of: (String, Kind),
    n: u64,
}

impl Counts {
    /// Counts one more.
    ///
    /// # Errors
    /// The user has as many as `most` already.
    pub(in crate::api) fn take(&self, user: &str, kind: Kind, most: Option<u64>) -> Result<Share, ApiError> {
        let mut counted = self.lock();
        let of = (user.to_owned(), kind);
        let held = counted.get(&of).copied().unwrap_or(0);
        match most.filter(|most| held >= *most) {
            Some(most) => Err(ApiError::too_many(user, kind.word(), most)),
            None => Ok(self.counted(&mut counted, of, 1)),
        }
    }

    /// Counts so many more, and says how many there are then.
    pub(in crate::api) fn add(&self, user: &str, kind: Kind, n: u64) -> (Share, u64) {
        let mut counted = self.lock();
        let of = (user.to_owned(), kind);
        let share = self.counted(&mut counted, of.clone(), n);
        (share, counted.get(&of).copied().unwrap_or(0))
    }

    /// How many of the user's are under way.
    pub(in crate::api) fn of(&self, user: &str, kind: Kind) -> u64 {
        self.lock().get(&(user.to_owned(), kind)).copied().unwrap_or(0)
    }

    fn counted(&self, counted: &mut Counted, of: (String, Kind), n: u64) -> Share {
        let held = counted.entry(of.clone()).or_default();
        *held = held.saturating_add(n);
        Share { counts: self.clone(), of, n }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counted = self.counts.lock();
        if let Some(held) = counted.get_mut(&self.of) {
            *held = held.saturating_sub(self.n);
            if *held == 0 {
                counted.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Kind};

    #[test]
    fn a_share_counts_until_it_is_dropped() {
        let counts = Counts::default();
        let take = || counts.take("ann", Kind::Streams, Some(2));
        let (one, two) = (take().ok(), take().ok());
        let refused = take().expect_err("a third one");
        assert_eq!((refused.status.as_u16(), refused.code), (429, "quota"));
        assert!(refused.message.contains("2 streams"), "{}", refused.message);
        assert!(
            counts.take("bob", Kind::Streams, Some(2)).is_ok()
                && counts.take("ann", Kind::Requests, Some(1)).is_ok()
        );
        drop(one);
        assert_eq!(counts.of("ann", Kind::Streams), 1);
        assert!(take().is_ok());
        drop(two);
        let (_share, n) = counts.add("ann", Kind::Streams, 5);
        assert_eq!(n, 5);
    }

    #[test]
    fn nothing_is_remembered_of_who_has_nothing() {
        let counts = Counts::default();
        drop(counts.take("ann", Kind::Requests, None));
        assert!(counts.lock().is_empty());
    }
}
