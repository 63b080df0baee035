//! The reasons for which a request is refused.

use crate::{
    edges::EdgeProblem,
    ids::{AllocationId, JobId, PilotId, TaskId},
};

/// The reason for which a request is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such job.
    #[error("there is no job {0}")]
    NoJob(JobId),
    /// There is no such task.
    #[error("job {} has tasks 0 to {}, not {}", .0.job, .1.saturating_sub(1), .0.index)]
    NoTask(TaskId, u64),
    /// There is no such pilot.
    #[error("there is no pilot {0}")]
    NoPilot(PilotId),
    /// There is no such platform.
    #[error("there is no platform {0:?}")]
    NoPlatform(String),
    /// The platform was detached.
    #[error(
        "platform {0:?} was detached; put it into the configuration again, and have the manager read that"
    )]
    Detached(String),
    /// The platform still has pilots or requested allocations.
    #[error("platform {platform:?} still has {n_pilots} pilots there or asked for; drain it first")]
    InUse {
        /// The platform's name.
        platform: String,
        /// Number of pilots.
        n_pilots: usize,
    },
    /// The job belongs to another user.
    #[error("job {job} belongs to {owner}, not to {caller}")]
    NotYours {
        /// The job.
        job: JobId,
        /// The user that the job belongs to.
        owner: String,
        /// The user that sent the request.
        caller: String,
    },
    /// There are no measurements of the application.
    #[error("nothing is known of an application {0:?}")]
    NoProfile(String),
    /// A task could never start on a node of the platform.
    #[error("a node of {0:?} has not the room or the time for a task")]
    NoRoom(String),
    /// The platform is paused, draining or detached.
    #[error("platform {0:?} is paused, drained or detached; `pilotfish platform resume {0}` lets it go on")]
    Rests(String),
    /// Another user's profiling run is under way on the platform.
    #[error("a profiling run of {user} is under way on {platform:?}; try it again when that is over")]
    Profiles {
        /// The platform.
        platform: String,
        /// The user of the profiling run.
        user: String,
    },
    /// The dependencies are invalid.
    #[error("{0}")]
    Unfit(EdgeProblem),
    /// Another operator has set policies since.
    #[error("somebody else has set policies meanwhile; look at them again")]
    PoliciesChanged,
    /// The state of the job does not allow the change.
    #[error("job {job} is {state}, so it cannot be {wanted}")]
    WrongState {
        /// The job.
        job: JobId,
        /// Its state.
        state: &'static str,
        /// The change that was requested.
        wanted: &'static str,
    },
    /// The workflow was submitted before, and some of its jobs are purged.
    #[error(
        "this was submitted before, and only some of its jobs are there still: purge job {0} and the others of them, too"
    )]
    KnownInPart(JobId),
    /// Another job depends on the job or takes inputs from it.
    #[error(
        "job {job} cannot be purged: job {by} takes from it or waits for it; purge that one first, or both at once"
    )]
    NeededBy {
        /// The job.
        job: JobId,
        /// The other job.
        by: JobId,
    },
    /// The tag belongs to no allocation that waits for a pilot.
    #[error("no allocation waits for a pilot with tag {0:?}")]
    NoAllocation(String),
    /// A pilot has registered with the join token before, and the token serves once.
    #[error("the pilot of {0:?} has come; a join token serves once there")]
    JoinedBefore(String),
    /// Another live pilot has registered with the join token.
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
    /// The pilot has left or was lost since the session began.
    #[error("the session of pilot {0} has ended; register again")]
    SessionEnded(PilotId),
    /// The pilot serves a later epoch of the manager.
    #[error("pilot {0} serves a later life of this manager")]
    OtherLife(PilotId),
    /// There is no such allocation.
    #[error("there is no allocation {0}")]
    UnknownAllocation(AllocationId),
    /// The allocation has ended or is ending.
    #[error("allocation {0} is {1}, so it cannot be cancelled")]
    AllocationOver(AllocationId, &'static str),
    /// The manager is ending.
    #[error("the manager is shutting down")]
    ShuttingDown,
}
