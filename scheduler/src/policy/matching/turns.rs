//! Turn-taking: within a priority, the user who holds the fewest cores is served next, and of that
//! user's jobs the one that holds the fewest. Ties go to whoever would not hold more by it, so that cores do
//! not go back and forth, then to whoever was served longest ago, so that users of single-core tasks
//! alternate even while all hold the same.

use super::Candidate;

/// Whether `a` is served before `b`.
pub(super) fn is_before(a: &Candidate<'_>, b: &Candidate<'_>) -> bool {
    let key = |c: &Candidate<'_>| {
        (
            std::cmp::Reverse(c.priority),
            c.user_held_cores,
            c.held_cores,
            !c.is_refill,
            c.last_served,
            c.submitted_at,
            c.job,
        )
    };
    key(a) < key(b)
}

#[cfg(test)]
mod tests {
    use super::super::{Candidate, Matching, Standing, application::Score};
    use crate::{ids::JobId, time::Time};

    fn job(id: u64, user: &'static str, user_held_cores: u64, held_cores: u64) -> Candidate<'static> {
        Candidate {
            job: JobId(id),
            user,
            priority: 0,
            submitted_at: Time(id),
            held_cores,
            user_held_cores,
            user_held_here: 0,
            user_share: None,
            is_dry: false,
            standing: Standing::Within,
            is_previous: false,
            score: Score(0.0, 0.0),
            work_left: 0,
            is_refill: false,
            last_served: 0,
        }
    }

    #[test]
    fn a_newcomer_is_served_before_the_user_who_has_all() {
        assert_eq!(Matching::Turns.choose(&[job(1, "ada", 64, 64), job(2, "bob", 0, 0)]), Some(1));
    }

    #[test]
    fn jobs_of_one_user_take_turns() {
        assert_eq!(Matching::Turns.choose(&[job(1, "ada", 9, 5), job(2, "ada", 9, 4)]), Some(1));
    }

    #[test]
    fn who_was_served_longest_ago_wins_a_tie() {
        let (mut a, mut b) = (job(1, "ada", 4, 4), job(2, "bob", 4, 4));
        (a.last_served, b.last_served) = (9, 3);
        assert_eq!(Matching::Turns.choose(&[a.clone(), b.clone()]), Some(1));
        a.is_refill = true;
        assert_eq!(Matching::Turns.choose(&[a, b]), Some(0), "nothing changes hands");
    }
}
