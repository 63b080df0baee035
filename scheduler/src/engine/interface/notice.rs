//! News for those who watch.

use std::fmt;

use crate::{
    engine::interface::platform::scaling::ScalingChange,
    ids::{AllocationId, JobId, PilotId, TaskId},
    results::FailureKind,
};

/// What a pilot has said that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// It speaks of tasks that it was not leased.
    NotLeased {
        /// Their job.
        job: JobId,
        /// How many.
        n_tasks: u64,
    },
    /// It has sent a report whose number is not the next one.
    Number {
        /// Its number.
        found: u64,
        /// The right one.
        expected: u64,
    },
    /// It serves a later life of the manager.
    OtherLife {
        /// That one's epoch.
        epoch: u64,
    },
    /// It holds other tasks than it was leased, or has been sent others than it says.
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
                "it serves a later life of this manager (epoch {epoch}), as where a copy of its folder is at work; it is \
                 not pilots_to_notify here"
            ),
            Doubt::Step => write!(f, "it does not hold what it was sent; it is asked what it holds"),
        }
    }
}

/// News for those who watch.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// A job's counts or state have changed.
    JobChanged(JobId),
    /// A job has no open task any more.
    JobEnded(JobId),
    /// A task failed; for good when `is_final`.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// Why.
        kind: FailureKind,
        /// Whether it will not be tried again.
        is_final: bool,
        /// Where.
        pilot: PilotId,
    },
    /// The records of so many acknowledged reports of this pilot are missing.
    ReportsForgotten {
        /// The pilot.
        pilot: PilotId,
        /// How many.
        n: u64,
    },
    /// A pilot says what cannot be; told once for each.
    PilotDoubted {
        /// The pilot.
        pilot: PilotId,
        /// What it has said.
        what: Doubt,
    },
    /// A second pilot comes with the join token of one that is there; told once for each.
    JoinedTwice {
        /// The one that is there.
        pilot: PilotId,
        /// Its allocation's tag.
        tag: String,
    },
    /// A platform refused an allocation, or one ended before its pilot came.
    PlatformFailed {
        /// The platform's name.
        platform: String,
        /// In its own words.
        what: String,
    },
    /// A platform says why an allocation waits, and somebody should do something about it.
    AllocationWaits {
        /// The platform's name.
        platform: String,
        /// Which.
        allocation: AllocationId,
        /// The platform's own id.
        batch_id: String,
        /// In the platform's words.
        reason: String,
        /// What can be done.
        advice: String,
        /// Whether it never begins by itself, as far as is known.
        is_endless: bool,
    },
    /// Allocations were asked of another adapter or another host than their platform has now.
    LeftBehind {
        /// The platform's name.
        platform: String,
        /// What it was, of the first of them.
        asked_of: String,
        /// What it is now.
        now: String,
        /// The ids of their batch jobs, or their names.
        batch_jobs: Vec<String>,
    },
    /// A core of a platform stands for more vCPUs than before, or fewer.
    PlatformScaled {
        /// The platform's name.
        platform: String,
        /// How many, and from which numbers.
        change: ScalingChange,
    },
    /// A cloud's hosts keep the vCPUs that they have: pilots offer more slots instead.
    ScalesItself {
        /// The platform's name.
        platform: String,
        /// Why, in the cloud's words.
        why: String,
    },
}
