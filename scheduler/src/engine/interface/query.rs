//! Questions of readers.

use serde::{Deserialize, Serialize};

use crate::ids::{AllocationId, JobId, PilotId, TaskId};

/// What a reader wants to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// Totals of everything.
    Status,
    /// All jobs.
    Jobs,
    /// One job.
    Job(JobId),
    /// One task.
    Task(TaskId),
    /// All pilots, those that have ended only on request.
    Pilots {
        /// Those that have ended too.
        with_ended: bool,
    },
    /// All platforms.
    Platforms,
    /// All allocations, those that have ended only on request.
    Allocations {
        /// Those that have ended too.
        with_ended: bool,
    },
    /// One allocation.
    Allocation(AllocationId),
    /// What was learned of all applications.
    Profiles,
    /// The policies and their history.
    Policies,
    /// The weights and their history.
    Weights,
    /// Why a job is where it is.
    ExplainJob(JobId),
    /// Why a task is where it is.
    ExplainTask(TaskId),
    /// Why a pilot does what it does.
    ExplainPilot(PilotId),
    /// Why a platform has the pilots it has.
    ExplainPlatform(String),
    /// Why an application's tasks are divided among platforms as they are.
    ExplainWeight(String),
    /// Why an allocation is there.
    ExplainAllocation(AllocationId),
    /// The job's spec as JSON.
    Spec(JobId),
    /// What a user has of jobs, and whether this submission is known.
    Holdings {
        /// By the name.
        user: String,
        /// The submission's key.
        key: Option<String>,
    },
    /// What a live pilot with that session may ask for.
    Session(PilotId, u64),
    /// The name of the platform of a pilot, of one that has ended, too.
    PlatformOfPilot(PilotId),
    /// The same of the allocation with this tag.
    PlatformOfTag(String),
    /// Tasks of the job in a state, as ranges.
    TasksIn(JobId, TaskFilter),
    /// What a task waits for, or has waited for.
    WaitedFor(TaskId),
}

/// States of tasks to ask for.
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
