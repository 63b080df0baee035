//! The counts of a job when a pilot began to fail its tasks.

use crate::ids::JobId;

/// The counts of a job's attempts when a pilot began to fail its tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowBegan {
    pub(in crate::engine) job: JobId,
    pub(in crate::engine) n_done: u64,
    pub(in crate::engine) n_failed: u64,
    /// Number of failures on this pilot since then.
    pub(in crate::engine) n_own: u64,
}
