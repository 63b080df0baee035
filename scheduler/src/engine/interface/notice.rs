//! Notices for users that follow events.

use std::fmt;

use crate::{
    engine::interface::platform::scaling::ScalingChange,
    ids::{AllocationId, JobId, PilotId, TaskId},
    results::FailureKind,
};

/// An impossible statement of a pilot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// The pilot reports on tasks that are not leased to it.
    NotLeased {
        /// Their job.
        job: JobId,
        /// Number of tasks.
        n_tasks: u64,
    },
    /// The pilot has sent a report whose number is not the next one.
    Number {
        /// The number of the report.
        found: u64,
        /// The number that was expected.
        expected: u64,
    },
    /// The pilot serves a later epoch of the manager.
    OtherLife {
        /// The epoch that the pilot serves.
        epoch: u64,
    },
    /// The pilot holds other tasks than its leases, or the manager has sent it other tasks than it says.
    Step,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Number { found, expected } => {
                write!(f, "it sent report {found} where {expected} is the next one; the report is not taken")
            }
            Doubt::NotLeased { job, n_tasks } => {
                write!(
                    f,
                    "it speaks of {n_tasks} tasks of job {job} that it was not leased; nothing of that is taken"
                )
            }
            Doubt::OtherLife { epoch } => write!(
                f,
                "it serves a later life of this manager (epoch {epoch}), as where a copy of its folder is at work; it \
                 takes no commands from here"
            ),
            Doubt::Step => write!(f, "it does not hold what it was sent; it is asked what it holds"),
        }
    }
}

/// A notice for users that follow events.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// A job's counts or state have changed.
    JobChanged(JobId),
    /// A job has no open task any more.
    JobEnded(JobId),
    /// A task failed; it is not retried if `is_final`.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// The failure kind.
        kind: FailureKind,
        /// Whether the task will not be retried.
        is_final: bool,
        /// The pilot on which it failed.
        pilot: PilotId,
    },
    /// The records of acknowledged reports of this pilot are missing.
    ReportsForgotten {
        /// The pilot.
        pilot: PilotId,
        /// Number of reports.
        n: u64,
    },
    /// A pilot says something impossible; sent once per pilot.
    PilotDoubted {
        /// The pilot.
        pilot: PilotId,
        /// The impossible statement.
        what: Doubt,
    },
    /// A second pilot uses the join token of a live pilot; sent once per pilot.
    JoinedTwice {
        /// The live pilot.
        pilot: PilotId,
        /// The tag of the pilot's allocation.
        tag: String,
    },
    /// A platform refused an allocation, or an allocation ended before its pilot registered.
    PlatformFailed {
        /// The platform's name.
        platform: String,
        /// The reason, in the platform's words.
        what: String,
    },
    /// An allocation waits for a reason that a person should do something about.
    AllocationWaits {
        /// The platform's name.
        platform: String,
        /// The allocation.
        allocation: AllocationId,
        /// The platform's own id.
        batch_id: String,
        /// The reason, in the platform's words.
        reason: String,
        /// The advice on what a person can do.
        advice: String,
        /// Whether the allocation never starts by itself, as far as is known.
        is_endless: bool,
    },
    /// Some allocations were requested through another backend or host than their platform has now.
    LeftBehind {
        /// The platform's name.
        platform: String,
        /// The former backend and host of the platform, for the first of the allocations.
        asked_of: String,
        /// The present backend and host.
        now: String,
        /// The ids or names of the batch jobs.
        batch_jobs: Vec<String>,
    },
    /// The vCPU ratio of a platform has changed.
    PlatformScaled {
        /// The platform's name.
        platform: String,
        /// The change and the measurements behind it.
        change: ScalingChange,
    },
    /// A cloud's hosts keep their vCPU ratios: pilots offer more slots instead.
    ScalesItself {
        /// The platform's name.
        platform: String,
        /// The reason, in the cloud's words.
        why: String,
    },
}
