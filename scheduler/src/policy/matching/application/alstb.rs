//! ALSTB: by global importance (paper 002, equation 8). An application goes to a node where it runs better
//! than elsewhere, and where it leaves fewer processors without work than other applications would.

use super::{Importance, Score};

pub(super) fn score(importance: &Importance, application: usize, node: usize) -> Score {
    Score::of(importance.global(application, node))
}
