//! Matching: which job a pulling pilot serves.
//!
//! [`Matching`] compares jobs and is what the engine asks. [`application`] compares applications on nodes, and
//! [`static_map`] maps tasks ahead of time; the simulator asks both.

pub mod application;
mod fifo;
pub mod static_map;
mod turns;

use serde::{Deserialize, Serialize};

use crate::{ids::JobId, time::Time};

/// A job that could give tasks to the pilot at hand.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// The job.
    pub job: JobId,
    /// Whose it is.
    pub user: &'a str,
    /// Higher first.
    pub priority: i32,
    /// When it was submitted.
    pub submitted_at: Time,
    /// Cores that its tasks hold.
    pub held_cores: u64,
    /// Cores that all its user's tasks hold.
    pub user_held_cores: u64,
    /// Whether some more of it take no more cores: they wait for those of its tasks before them.
    pub is_refill: bool,
    /// The serving counter when it was last given a bundle; 0: never.
    pub last_served: u64,
}

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matching {
    /// Users take turns, then jobs of a user: see `turns.rs`.
    #[default]
    Turns,
    /// Oldest first: see `fifo.rs`.
    Fifo,
}

impl Matching {
    /// The position of the job to serve among `candidates`; `None` only when there is none. O(n).
    pub fn choose<'a>(self, candidates: impl IntoIterator<Item = &'a Candidate<'a>>) -> Option<usize> {
        let is_before = match self {
            Matching::Turns => turns::is_before,
            Matching::Fifo => fifo::is_before,
        };
        let numbered = candidates.into_iter().enumerate();
        numbered.reduce(|best, other| if is_before(other.1, best.1) { other } else { best }).map(|(n, _)| n)
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidate, Matching};
    use crate::{ids::JobId, time::Time};

    const N_NUMBERS: usize = 7;

    /// Numbers in the order in which turns look at them; 0 is the better, 1 the worse.
    fn candidate(numbers: [u64; N_NUMBERS]) -> Candidate<'static> {
        let [priority, user_held_cores, held_cores, is_no_refill, last_served, submitted_at, job] = numbers;
        Candidate {
            job: JobId(job),
            user: "ada",
            priority: -(priority as i32),
            submitted_at: Time(submitted_at),
            held_cores,
            user_held_cores,
            is_refill: is_no_refill == 0,
            last_served,
        }
    }

    /// Each of these numbers decides, whatever the later ones and those not named say, where those before are equal.
    fn assert_order(policy: Matching, order: &[usize]) {
        for (place, decides) in order.iter().enumerate() {
            let (mut better, mut worse) = ([1; N_NUMBERS], [0; N_NUMBERS]);
            for equal in &order[..place] {
                better[*equal] = 0;
            }
            (better[*decides], worse[*decides]) = (0, 1);
            let (better, worse) = (candidate(better), candidate(worse));
            assert_eq!(policy.choose([&better, &worse]), Some(0), "{policy:?}: {decides}");
            assert_eq!(policy.choose([&worse, &better]), Some(1), "{policy:?}: {decides}");
        }
    }

    #[test]
    fn jobs_are_compared_by_one_number_after_the_other() {
        assert_order(Matching::Turns, &[0, 1, 2, 3, 4, 5, 6]);
        assert_order(Matching::Fifo, &[0, 5, 6]);
        let alike = candidate([0; N_NUMBERS]);
        for policy in [Matching::Turns, Matching::Fifo] {
            assert_eq!(policy.choose([&alike, &alike]), Some(0), "the first of equal ones");
        }
    }
}
