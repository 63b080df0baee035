//! R-MinMin: the application that runs fastest on the node (paper 002, section 4).

use super::{Importance, Score};

pub(super) fn score(importance: &Importance, application: usize, node: usize) -> Score {
    Score::of(importance.rate(application, node))
}
