//! NI: by node importance alone (paper 002, equation 4). This is global importance without its second term,
//! which hardly depends on the node and so draws all nodes to the same applications.

use super::{Importance, Score};

pub(super) fn score(importance: &Importance, application: usize, node: usize) -> Score {
    Score::of(importance.of_node(application, node))
}
