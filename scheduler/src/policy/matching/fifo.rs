//! First in, first out. Simple, and unfair: one long job delays all users.

use super::Candidate;

/// Returns whether `a` is served before `b`.
pub(super) fn is_before(a: &Candidate<'_>, b: &Candidate<'_>) -> bool {
    let key = |c: &Candidate<'_>| (c.submitted_at, c.job);
    key(a) < key(b)
}

#[cfg(test)]
mod tests {
    use super::super::{Candidate, Matching, Standing, application::Score};
    use crate::{ids::JobId, time::Time};

    #[test]
    fn the_oldest_job_of_the_highest_priority_goes_first() {
        let job = |id, priority| Candidate {
            job: JobId(id),
            user: "ada",
            priority,
            rank: 0,
            submitted_at: Time(id),
            held_cores: 100 * id,
            user_held_cores: 0,
            user_held_here: 0,
            user_share: None,
            is_dry: false,
            standing: Standing::Within,
            is_previous: false,
            score: Score(0.0, 0.0),
            work_left: 0,
            is_refill: false,
            last_served: 0,
        };
        assert_eq!(Matching::Fifo.choose(&[job(3, 0), job(2, 0), job(4, 0)]), Some(1));
        assert_eq!(Matching::Fifo.choose(&[job(3, 0), job(2, 0), job(4, 7)]), Some(2));
        assert_eq!(Matching::Fifo.choose(&[]), None);
    }
}
