//! Reservation of a pilot's cores for a job.

use crate::{ids::JobId, time::Time};

/// A reservation: a pilot keeps the cores that come free for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// The job.
    pub job: JobId,
    /// The serving counter when the reservation began.
    pub since: u64,
    /// The time at which the tasks that the pilot held then are expected to have ended.
    pub until: Time,
}
