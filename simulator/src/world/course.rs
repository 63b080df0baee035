//! The course of one attempt at a task: drawn by the world itself, or taken from a scenario's model.

use scheduler::{pilot::Ending, results::FailureKind, time::Span};

/// The course of an attempt at a task if nothing interferes.
pub(crate) struct Course {
    /// The runtime.
    pub(crate) span: Span,
    pub(crate) ending: Ending,
    /// Whether its pilot dies in the middle of it.
    pub(crate) kills_pilot: bool,
}

impl Course {
    pub(crate) fn node_failure() -> Ending {
        Ending::Failed(FailureKind::Node { what: "no space left on device".into() })
    }
}
