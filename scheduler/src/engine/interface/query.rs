//! Queries of readers.

use serde::{Deserialize, Serialize};

use crate::ids::{AllocationId, JobId, PilotId, TaskId};

/// A query of a reader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// The totals of the manager.
    Status,
    /// All jobs.
    Jobs,
    /// One job.
    Job(JobId),
    /// One task.
    Task(TaskId),
    /// All live pilots, on request the ended ones, too.
    Pilots {
        /// Whether to include those that have ended.
        with_ended: bool,
    },
    /// All platforms.
    Platforms,
    /// All present allocations, on request the ended ones, too.
    Allocations {
        /// Whether to include those that have ended.
        with_ended: bool,
    },
    /// One allocation.
    Allocation(AllocationId),
    /// The profiles of all applications.
    Profiles,
    /// The policies and their history.
    Policies,
    /// The weights and their history.
    Weights,
    /// The reasons for a job's state.
    ExplainJob(JobId),
    /// The reasons for a task's state.
    ExplainTask(TaskId),
    /// The reasons for a pilot's state.
    ExplainPilot(PilotId),
    /// The reasons for the number of a platform's pilots.
    ExplainPlatform(String),
    /// The reasons for the weights of an application.
    ExplainWeight(String),
    /// The reasons for an allocation.
    ExplainAllocation(AllocationId),
    /// The job's resolved description as JSON.
    Spec(JobId),
    /// The jobs, tasks and bytes that a user has, and whether a submission is known.
    Holdings {
        /// The user's name.
        user: String,
        /// The submission's key.
        key: Option<String>,
    },
    /// The data that a live pilot with this session may access.
    Session(PilotId, u64),
    /// The name of a pilot's platform; the pilot may have ended.
    PlatformOfPilot(PilotId),
    /// The name of the platform of the allocation with this tag.
    PlatformOfTag(String),
    /// The tasks of a job that are in this state, as ranges.
    TasksIn(JobId, TaskFilter),
    /// The tasks that a task waits for, or has waited for.
    WaitedFor(TaskId),
}

/// The states by which tasks can be selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TaskFilter {
    /// Every task.
    All,
    /// Not held by any pilot.
    Waiting,
    /// Held by a pilot, not begun.
    Queued,
    /// Begun.
    Running,
    /// Succeeded.
    Done,
    /// Failed for good.
    Failed,
    /// Cancelled.
    Cancelled,
}
