//! Allocations as platforms tell of them.

use crate::time::Time;

/// What a platform's listing shows of one of our allocations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListedAllocation {
    /// How many tasks of it are there, if it is a job array.
    pub n_nodes: Option<u32>,
    /// The tag we gave it.
    pub tag: String,
    /// The platform's own id.
    pub batch_id: String,
    /// Whether it has ended and is only remembered.
    pub is_ended: bool,
    /// Whether it runs, so that its pilot should come.
    pub is_running: bool,
    /// Whether it has begun and stands still, as its batch system or somebody has suspended it.
    pub is_suspended: bool,
    /// What is wrong with it, in the platform's words.
    pub trouble: Option<String>,
    /// Whether that is only that there is no room for it.
    pub lacks_room: bool,
    /// Why it waits, or has ended, in the platform's words, where the platform says so.
    pub reason: Option<String>,
}

/// An allocation that may be there, and whose id is known: what a listing may show of it though somebody has renamed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownAllocation {
    /// The platform's own id.
    pub batch_id: String,
    /// The tag we gave it.
    pub tag: String,
    /// When it was asked for: it was submitted then, or later.
    pub asked_for_at: Time,
    /// When it was known to be there: it was submitted then, or before.
    pub known_at: Time,
}

/// How a submission to a platform went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubmitOutcome {
    /// It is there, under this id of the platform's own.
    Accepted(String),
    /// It is not there, for this reason.
    Refused(String),
    /// It is not there, as the platform takes no more jobs of the account at present: its limit, in its words.
    NoRoom(String),
    /// It was not asked for, as it was not wanted any more when its turn came.
    Withdrawn,
    /// Nobody knows; only a listing by tag will tell.
    Unknown(String),
}
