//! R-Sufferage: the application that would lose most if it had to go to its best other node (paper 002,
//! section 4).

use super::{Importance, Score};

/// With no other node, the whole rate would be lost.
pub(super) fn score(importance: &Importance, application: usize, node: usize) -> Score {
    let row = importance.row(application);
    let best_other = if row.best_at == node { row.second } else { row.best };
    Score::of(importance.rate(application, node) - best_other)
}
