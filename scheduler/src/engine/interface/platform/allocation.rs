//! Allocations as platforms describe them.

use crate::time::Time;

/// An allocation of ours in a platform's listing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListedAllocation {
    /// Number of its tasks that are listed, if it is a job array.
    pub n_nodes: Option<u32>,
    /// The tag that we gave the allocation.
    pub tag: String,
    /// The platform's own id.
    pub batch_id: String,
    /// Whether it has ended and is only still listed.
    pub is_ended: bool,
    /// Whether it runs, so that its pilot should register soon.
    pub is_running: bool,
    /// Whether it has started and is suspended, by its batch system or by a person.
    pub is_suspended: bool,
    /// The problem with it, in the platform's words.
    pub trouble: Option<String>,
    /// Whether the only problem is that the platform has no room for it.
    pub lacks_room: bool,
    /// The reason why it waits or has ended, in the platform's words, where the platform gives one.
    pub reason: Option<String>,
}

/// An allocation that may be there and whose batch job id is known: a listing can show it even after a
/// rename.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownAllocation {
    /// The platform's own id.
    pub batch_id: String,
    /// The tag that we gave the allocation.
    pub tag: String,
    /// The time at which the engine asked for it: the submission was then or later.
    pub asked_for_at: Time,
    /// The time at which it was known to be there: the submission was then or earlier.
    pub known_at: Time,
}

/// The outcome of a submission to a platform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubmitOutcome {
    /// The platform has accepted the allocation, under this id of its own.
    Accepted(String),
    /// The platform has refused the allocation, for this reason.
    Refused(String),
    /// The platform accepts no more jobs of the account at present: its limit, in its words.
    NoRoom(String),
    /// The request was withdrawn before it was sent.
    Withdrawn,
    /// The outcome is unknown, for this reason; only a listing by tag can show it.
    Unknown(String),
}
