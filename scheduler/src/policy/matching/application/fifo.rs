//! R-FIFO: the application of the job that was submitted first, on any node: the baseline for the other
//! policies. Not in paper 002; `fifo.rs` one level up, revised for applications as the paper revises its
//! heuristics.

use super::{Importance, Open, Score};

/// Returns the same score for all nodes.
pub(super) fn score(_: &Importance, _: usize, _: usize) -> Score {
    Score::of(0.0)
}

pub(super) fn choose(open: &[Open]) -> Option<usize> {
    open.iter().min_by_key(|one| one.oldest).map(|one| one.application)
}
