//! Which jobs of a listing are ours though they bear other names: somebody has renamed ours, or the batch system has
//! used the id of one that is gone again, as after its reinstallation, or when its numbers have wrapped. A job of that
//! kind is the user's own, and must neither count as a pilot nor be cancelled.

use std::collections::HashMap;

use adapters::command::BatchId;
use scheduler::{
    engine::interface::KnownAllocation,
    time::{Span, Time},
};

/// A batch system tells whole seconds of its own clock, in its own zone; ids are used again after months, or a
/// reinstallation.
const TOLERANCE: Span = Span::from_secs(2 * 3600);

/// Where a batch system does not say when a job was submitted, a job of another name is taken for ours for so long after
/// ours was known to be there.
const BELIEVED: Span = Span::from_secs(24 * 3600);

/// What is known of jobs with ids of ours and names of others.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    are_ours: HashMap<(BatchId, String), bool>,
}

impl Identities {
    /// Whether the job of that id and name is ours, where it was asked for before.
    pub(crate) fn known(&self, id: &str, name: &str) -> Option<bool> {
        self.are_ours.get(&(id.to_owned(), name.to_owned())).copied()
    }

    /// Notes whether it is. `age`: how long ago its batch system says that it was submitted. `was_seen`: a listing of a
    /// moment ago showed ours.
    pub(crate) fn judge(
        &mut self,
        (id, name): (&str, &str),
        of_ours: &KnownAllocation,
        (age, was_seen): (Option<Span>, bool),
        now: Time,
    ) -> bool {
        let is_ours = is_same(of_ours, age, now) || (age.is_none() && was_seen);
        // What nobody said may be said the next time.
        if age.is_some() {
            self.are_ours.insert((id.to_owned(), name.to_owned()), is_ours);
        }
        is_ours
    }

    /// Forgets jobs that are not listed any more.
    pub(crate) fn retain(&mut self, is_listed: impl Fn(&str) -> bool) {
        self.are_ours.retain(|(id, _), _| is_listed(id));
    }
}

/// Whether a job of that age may be the one that was submitted then.
fn is_same(of_ours: &KnownAllocation, age: Option<Span>, now: Time) -> bool {
    match age {
        Some(age) => {
            let (least, most) = (now.since(of_ours.known_at), now.since(of_ours.asked_for_at));
            age + TOLERANCE >= least && age <= most + TOLERANCE
        }
        None => now.since(of_ours.known_at) <= BELIEVED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Span = Span::from_secs(3600);

    fn ours(now: Time, hours_ago: u64) -> KnownAllocation {
        let at = Time(now.0 - HOUR.times(hours_ago).0);
        KnownAllocation { batch_id: "7".into(), tag: "pf1-2".into(), asked_for_at: at, known_at: at }
    }

    #[test]
    fn a_job_that_was_submitted_at_another_time_is_not_ours() {
        let now = Time(HOUR.times(100_000).0);
        let mut identities = Identities::default();
        let mut judge = |name: &str, hours_ago: u64, age: Option<u64>, was_seen: bool| {
            let age = age.map(|hours| HOUR.times(hours));
            identities.judge(("7", name), &ours(now, hours_ago), (age, was_seen), now)
        };
        assert!(judge("unsaid", 99, None, true), "it was there a moment ago");
        assert!(!judge("younger", 50, Some(3), true), "whatever was seen");
        let mut is_ours = |name: &str, hours_ago: u64, age: Option<u64>| judge(name, hours_ago, age, false);
        assert!(is_ours("renamed", 50, Some(50)), "it is as old as ours");
        assert!(is_ours("renamed", 50, Some(49)), "in another zone");
        assert!(!is_ours("younger", 50, Some(3)), "the id was used again");
        assert!(!is_ours("older", 50, Some(60)), "it was there before ours was asked for");
        assert!(is_ours("unsaid", 23, None));
        assert!(!is_ours("unsaid", 25, None), "nobody says so, and it is long ago");
        assert_eq!(identities.known("7", "younger"), Some(false));
        assert_eq!(identities.known("7", "renamed"), Some(true));
        assert_eq!(identities.known("7", "unsaid"), None, "it is asked for again");
        identities.retain(|id| id != "7");
        assert_eq!(identities.known("7", "renamed"), None);
    }

    #[test]
    fn a_job_whose_submission_was_answered_late_is_as_old_as_its_intent_at_most() {
        let now = Time(HOUR.times(100_000).0);
        let found_late = KnownAllocation { known_at: now, ..ours(now, 30) };
        for (age, is_ours) in [(0, true), (15, true), (31, true), (40, false)] {
            assert_eq!(is_same(&found_late, Some(HOUR.times(age)), now), is_ours, "{age} hours");
        }
    }
}
