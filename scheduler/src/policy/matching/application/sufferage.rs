//! R-Sufferage: chooses the application that would lose most if it had to go to its best other node (paper
//! 002, section 4).

use super::{Importance, Score};

/// Returns the loss; without another node it is the whole rate.
pub(super) fn score(importance: &Importance, application: usize, node: usize) -> Score {
    let row = importance.row(application);
    let best_other = if row.best_at == node { row.second } else { row.best };
    Score::of(importance.rate(application, node) - best_other)
}
