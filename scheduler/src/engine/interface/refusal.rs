//! Reasons for which a request is refused.

use crate::{
    edges::EdgeProblem,
    ids::{AllocationId, JobId, PilotId, TaskId},
};

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No such job.
    #[error("there is no job {0}")]
    NoJob(JobId),
    /// No such task.
    #[error("job {} has tasks 0 to {}, not {}", .0.job, .1.saturating_sub(1), .0.index)]
    NoTask(TaskId, u64),
    /// No such pilot.
    #[error("there is no pilot {0}")]
    NoPilot(PilotId),
    /// No such platform.
    #[error("there is no platform {0:?}")]
    NoPlatform(String),
    /// It was taken away.
    #[error(
        "platform {0:?} was detached; put it into the configuration again, and have the manager read that"
    )]
    Detached(String),
    /// Pilots are there, or may come.
    #[error("platform {platform:?} still has {n_pilots} pilots there or asked for; drain it first")]
    InUse {
        /// Its name.
        platform: String,
        /// How many.
        n_pilots: usize,
    },
    /// Somebody else's job.
    #[error("job {job} belongs to {owner}, not to {caller}")]
    NotYours {
        /// The job.
        job: JobId,
        /// Whose it is.
        owner: String,
        /// Who asked.
        caller: String,
    },
    /// Nothing was learned of it.
    #[error("nothing is known of an application {0:?}")]
    NoProfile(String),
    /// A task would never begin there.
    #[error("a node of {0:?} has not the room or the time for a task")]
    NoRoom(String),
    /// Nothing is asked of it.
    #[error("platform {0:?} is paused, drained or detached; `pilotfish platform resume {0}` lets it go on")]
    Rests(String),
    /// Somebody else measures there.
    #[error("a profiling run of {user} is under way on {platform:?}; try it again when that is over")]
    Profiles {
        /// The platform.
        platform: String,
        /// Whose run it is.
        user: String,
    },
    /// Tasks cannot wait for each other so.
    #[error("{0}")]
    Unfit(EdgeProblem),
    /// Somebody else was sooner.
    #[error("somebody else has set policies meanwhile; look at them again")]
    PoliciesChanged,
    /// The job is in a state where that means nothing.
    #[error("job {job} is {state}, so it cannot be {wanted}")]
    WrongState {
        /// The job.
        job: JobId,
        /// Its state.
        state: &'static str,
        /// What was asked.
        wanted: &'static str,
    },
    /// Some jobs of a workflow that was submitted before are purged.
    #[error(
        "this was submitted before, and only some of its jobs are there still: purge job {0} and the others of them, too"
    )]
    KnownInPart(JobId),
    /// Another job needs it.
    #[error(
        "job {job} cannot be purged: job {by} takes from it or waits for it; purge that one first, or both at once"
    )]
    NeededBy {
        /// The job.
        job: JobId,
        /// The other one.
        by: JobId,
    },
    /// The tag belongs to no allocation that waits for a pilot.
    #[error("no allocation waits for a pilot with tag {0:?}")]
    NoAllocation(String),
    /// Its pilot came before, and is another one.
    #[error("the pilot of {0:?} has come; a join token serves once there")]
    JoinedBefore(String),
    /// Another pilot has come with that join token, and is there.
    #[error(
        "pilot {pilot} has come with the join token of {tag:?} and is not gone; another one may come when it has been \
         silent for its heartbeat limit, or from the folder of the first"
    )]
    StillThere {
        /// The allocation's tag.
        tag: String,
        /// The pilot.
        pilot: PilotId,
    },
    /// The pilot has left, or was given up since the session began.
    #[error("the session of pilot {0} has ended; register again")]
    SessionEnded(PilotId),
    /// It serves a later life of the manager.
    #[error("pilot {0} serves a later life of this manager")]
    OtherLife(PilotId),
    /// No such allocation.
    #[error("there is no allocation {0}")]
    UnknownAllocation(AllocationId),
    /// The allocation is over, or on its way there.
    #[error("allocation {0} is {1}, so it cannot be cancelled")]
    AllocationOver(AllocationId, &'static str),
    /// The manager is ending.
    #[error("the manager is shutting down")]
    ShuttingDown,
}
