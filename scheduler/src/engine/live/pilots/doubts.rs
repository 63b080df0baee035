//! The state of a job when a pilot began to fail its tasks.

use crate::ids::JobId;

/// What a job's attempts had come to when a pilot began to fail its tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowBegan {
    pub(in crate::engine) job: JobId,
    pub(in crate::engine) n_done: u64,
    pub(in crate::engine) n_failed: u64,
    /// Failures of this pilot since then.
    pub(in crate::engine) n_own: u64,
}
