//! Turn-taking: serves the user who holds the fewest cores, and the job of that user that holds the fewest.
//! Ties go to a job that would not hold more cores by it, so that cores do not go back and forth, then to the
//! job served longest ago, so that users of single-core tasks alternate even while all hold equal numbers.

use super::Candidate;

/// Returns whether `a` is served before `b`.
pub(super) fn is_before(a: &Candidate<'_>, b: &Candidate<'_>) -> bool {
    let key = |c: &Candidate<'_>| {
        (c.user_held_cores, c.held_cores, !c.is_refill, c.last_served, c.submitted_at, c.job)
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
            rank: 0,
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
    fn a_priority_orders_the_jobs_of_its_user_only() {
        let with = |id, user, held, priority| Candidate { priority, ..job(id, user, held, held) };
        let jobs = [with(1, "ada", 5, 1_000_000), with(2, "ada", 5, 0), with(3, "bob", 0, 0)];
        for policy in [Matching::Turns, Matching::Alstb] {
            let others = [Candidate { submitted_at: Time(0), ..jobs[2].clone() }, jobs[0].clone()];
            assert_eq!(policy.choose(&others), Some(0), "{policy:?}");
            assert_eq!(policy.choose(&jobs[..2]), Some(0), "{policy:?}");
        }
        assert_eq!(Matching::Turns.choose(&jobs), Some(2));
        let behind = [with(1, "ada", 0, -5), with(2, "bob", 5, 0)];
        assert_eq!(Matching::Turns.choose(&behind), Some(0), "below 0 is no place behind others");
        // Only the first of ada's jobs is compared with bob's, though the second alone would go before it.
        let jobs = [with(1, "ada", 3, 2), with(2, "ada", 1, 1), with(3, "bob", 2, 0)];
        assert_eq!(Matching::Turns.choose(&jobs), Some(2));
        assert!(jobs[0].outranks(&jobs[1]) && !jobs[0].outranks(&jobs[2]) && !jobs[2].outranks(&jobs[1]));
    }

    #[test]
    fn a_priority_that_an_operator_allows_goes_before_all() {
        let mut jobs = [job(1, "ada", 9, 9), job(2, "bob", 0, 0)];
        (jobs[0].priority, jobs[0].rank, jobs[1].priority) = (3, 3, 1_000_000);
        assert_eq!(Matching::Turns.choose(&jobs), Some(0));
        assert!(jobs[0].outranks(&jobs[1]) && !jobs[1].outranks(&jobs[0]));
        let because = Matching::Turns.precedence(&jobs[0], &jobs[1]);
        assert_eq!(because, super::super::Precedence::Priority { priorities: [3, 0] });
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
