//! R-MaxStd: chooses the application whose rates differ most over all nodes; of equal ones the one that runs
//! faster on the node (paper 002, section 4).

use super::{Importance, Score};

pub(super) fn score(importance: &Importance, application: usize, node: usize) -> Score {
    Score(importance.row(application).rates.deviation, importance.rate(application, node))
}
