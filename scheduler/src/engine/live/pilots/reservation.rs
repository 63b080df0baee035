//! A pilot keeps the cores that come free for a job.

use crate::{ids::JobId, time::Time};

/// A pilot keeps the cores that come free for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// For which one.
    pub job: JobId,
    /// Since which value of the serving counter.
    pub since: u64,
    /// When what the pilot held then is expected to have ended.
    pub until: Time,
}
