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
