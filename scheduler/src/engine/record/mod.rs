//! What the store keeps. Control records travel as JSON, reports as columns; both are versioned by
//! the store's schema. A field may be added with a default; none may change its meaning.

pub mod co_runners;
pub mod end_cause;
pub mod provision_reason;
pub mod resource_use;
pub mod weight_policy;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        interface::{
            declared_profile::Declared,
            job_request::JobRequest,
            platform::{
                platform_spec::{PlatformMode, PlatformSpec},
                scaling::{Provider, ScalingChange},
            },
            users::{TokenId, UserToken},
            views::weights::WeightChange,
        },
        record::{
            co_runners::CoRunTimes, end_cause::EndCause, provision_reason::ProvisionReason,
            resource_use::ResourceUse, weight_policy::WeightPolicyState,
        },
    },
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    policy::Policies,
    pull::{MovedBytes, NodeFacts},
    ranges::TaskSet,
    results::{FailureKind, Successes, TaskFiles, TaskOutput, Usage},
    time::{Span, Time},
};

/// One durable change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // The fields are the words of the design page.
pub enum Record {
    /// A platform is attached, or attached again with other settings.
    PlatformAttached { platform: PlatformId, spec: PlatformSpec, at: Time },
    /// Something else is wanted of a platform.
    PlatformModeSet { platform: PlatformId, mode: PlatformMode, at: Time },
    /// A core of a platform stands for more vCPUs than before, or fewer.
    PlatformScaled { platform: PlatformId, change: ScalingChange },
    /// Hosts of a cloud that will be given other numbers of vCPUs, with what they had.
    RatiosFound { platform: PlatformId, providers: Vec<Provider>, at: Time },
    /// They have that again, or what somebody else has given them since.
    /// Without ids, as an early version wrote it, it is done once more.
    RatiosRestored {
        platform: PlatformId,
        #[serde(default)]
        ids: Vec<String>,
        at: Time,
    },
    /// What was learned of an application is forgotten.
    ProfileForgotten { application: String, at: Time },
    /// Somebody says what an application is like, or nothing any more.
    ProfileDeclared { application: String, declared: Option<Declared>, at: Time },
    /// An operator has set policies; what they were, and what the configuration said then.
    PoliciesSet { by: String, configured: Policies, before: Policies, policies: Policies, at: Time },
    /// A user has a token.
    TokenMade { token: UserToken, at: Time },
    /// Tokens are void.
    TokensRevoked { ids: Vec<TokenId>, by: String, at: Time },
    /// When tokens were last used; written down an hour apart at the earliest.
    TokensUsed { used: Vec<(TokenId, Time)>, at: Time },
    /// A job is kept.
    JobAccepted { job: JobId, request: JobRequest, at: Time },
    /// Nothing more of the job begins.
    JobPaused { job: JobId, at: Time },
    /// The job goes on.
    JobResumed { job: JobId, at: Time },
    /// A job that is over is removed with what its tasks have left.
    JobPurged { job: JobId, by: String, at: Time },
    /// Tasks will not be done: all that were open, or these.
    TasksCancelled { job: JobId, tasks: TaskSet, cause: CancelCause, at: Time },
    /// Tasks that failed or were cancelled are open again.
    TasksReopened { job: JobId, tasks: TaskSet, at: Time },
    /// A pilot's report, the part that was accepted.
    Reported { pilot: PilotId, seq: u64, results: Vec<JobResult>, at: Time },
    /// What tasks took beside those of others on their nodes.
    BesideMeasured { platform: PlatformId, beside: Vec<CoRunTimes>, at: Time },
    /// What tasks of applications needed there beside cores, and which bytes of files have moved for jobs.
    EffortsMeasured {
        platform: PlatformId,
        efforts: Vec<ResourceUse>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        moved: Vec<(JobId, MovedBytes)>,
        at: Time,
    },
    /// Weights were moved to these, by these numbers; and the law that goes on from job to job, if it has changed.
    WeightsMoved { changes: Vec<WeightChange>, law: Option<WeightPolicyState>, at: Time },
    /// An allocation will be asked for.
    AllocationIntended {
        allocation: AllocationId,
        platform: PlatformId,
        tag: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        because: Option<Box<ProvisionReason>>,
        at: Time,
    },
    /// It is there, or there after all: then the platform's own id may be empty, as nobody knows it.
    AllocationSubmitted {
        allocation: AllocationId,
        batch_id: String,
        /// Whether a listing of its platform has shown it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        was_listed: bool,
        at: Time,
    },
    /// Whether it is there is not known.
    AllocationUnknown { allocation: AllocationId, what: String, at: Time },
    /// Of a job array only so many tasks are there any more.
    AllocationShrunk { allocation: AllocationId, n_nodes: u32, at: Time },
    /// It is not wanted any more, or its pilot has gone; the platform has not yet said that it is over.
    AllocationReleased { allocation: AllocationId, why: String, at: Time },
    /// It is not there, or no longer.
    AllocationEnded {
        allocation: AllocationId,
        why: String,
        /// Why its batch job ended, where the batch system says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<EndCause>,
        /// Whether only a listing that lacked it says so: its pilot may come nevertheless.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        was_unlisted: bool,
        at: Time,
    },
    /// A pilot came. `born_at`: its start on the manager's clock.
    PilotRegistered {
        pilot: PilotId,
        allocation: AllocationId,
        nonce: u64,
        node: NodeFacts,
        born_at: Time,
        at: Time,
    },
    /// It drains: it gets nothing new, now or after a restart.
    PilotDrained { pilot: PilotId, why: DrainCause, at: Time },
    /// It is gone, after giving back what it held.
    PilotLeft { pilot: PilotId, why: String, at: Time },
    /// It vanished; these tasks may be why.
    PilotLost { pilot: PilotId, why: String, blamed: Vec<Blamed>, at: Time },
    /// A pilot that had been given up is back.
    PilotReturned { pilot: PilotId, at: Time },
    /// It still has these tasks: they were not why it had been silent.
    BlameTakenBack { pilot: PilotId, tasks: Vec<(JobId, TaskSet)>, at: Time },
}

impl Record {
    /// When it was made.
    pub fn at(&self) -> Time {
        match self {
            Record::PlatformScaled { change, .. } => change.at,
            Record::PlatformAttached { at, .. }
            | Record::RatiosFound { at, .. }
            | Record::RatiosRestored { at, .. }
            | Record::PlatformModeSet { at, .. }
            | Record::ProfileForgotten { at, .. }
            | Record::ProfileDeclared { at, .. }
            | Record::PoliciesSet { at, .. }
            | Record::TokenMade { at, .. }
            | Record::TokensRevoked { at, .. }
            | Record::TokensUsed { at, .. }
            | Record::JobAccepted { at, .. }
            | Record::JobPaused { at, .. }
            | Record::JobResumed { at, .. }
            | Record::JobPurged { at, .. }
            | Record::TasksCancelled { at, .. }
            | Record::TasksReopened { at, .. }
            | Record::Reported { at, .. }
            | Record::BesideMeasured { at, .. }
            | Record::EffortsMeasured { at, .. }
            | Record::WeightsMoved { at, .. }
            | Record::AllocationIntended { at, .. }
            | Record::AllocationSubmitted { at, .. }
            | Record::AllocationUnknown { at, .. }
            | Record::AllocationShrunk { at, .. }
            | Record::AllocationReleased { at, .. }
            | Record::AllocationEnded { at, .. }
            | Record::PilotRegistered { at, .. }
            | Record::PilotDrained { at, .. }
            | Record::PilotLeft { at, .. }
            | Record::PilotLost { at, .. }
            | Record::PilotReturned { at, .. }
            | Record::BlameTakenBack { at, .. } => *at,
        }
    }
}

/// Why tasks were cancelled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CancelCause {
    /// A user said so.
    User(String),
    /// More tasks failed than the job allows.
    MaxFailures {
        /// How many had failed.
        n_failed: u64,
        /// How many the job allows.
        limit: u64,
    },
    /// This task, which they waited for, failed for good or was cancelled.
    Dependency(TaskId),
}

/// Why a pilot drains.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DrainCause {
    /// It had no work for its platform's idle timeout.
    Idle(Span),
    /// It fails task after task that others can run.
    BlackHole {
        /// Failures in a row.
        n_failures: u32,
    },
    /// The manager ends.
    Shutdown,
    /// Its platform drains.
    Platform,
    /// Its allocation is cancelled.
    Cancelled,
}

impl fmt::Display for DrainCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DrainCause::Idle(timeout) => write!(f, "idle for {timeout}"),
            DrainCause::BlackHole { n_failures } => {
                write!(f, "its node failed {n_failures} tasks in a row that others could run")
            }
            DrainCause::Shutdown => write!(f, "the manager is being stopped"),
            DrainCause::Platform => write!(f, "its platform is being drained"),
            DrainCause::Cancelled => write!(f, "its allocation was cancelled"),
        }
    }
}

/// A task that ran, or may have run, on a pilot that vanished.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Blamed {
    /// The task.
    pub task: TaskId,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// What happens to it.
    pub verdict: Verdict,
}

/// What a report says of one job, as far as it was accepted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobResult {
    /// The job.
    pub job: JobId,
    /// First successes. Read back from the store only the set of tasks is needed; columns may be empty.
    pub successes: Successes,
    /// Sums over the successes.
    pub totals: Totals,
    /// Failed attempts.
    pub failures: Vec<FailedAttempt>,
    /// What the tasks wrote.
    pub outputs: Vec<TaskOutput>,
    /// Files that the successes left.
    #[serde(default)]
    pub files: Vec<TaskFiles>,
}

/// Sums over finished attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Attempts.
    pub n: u64,
    /// Their wall time together, microseconds.
    pub wall_us: u64,
    /// The sum of its squares, in square seconds times 10^6 (for the variance).
    pub wall_squared: u64,
    /// Their CPU time together, microseconds.
    pub cpu_us: u64,
    /// The largest peak memory, bytes.
    pub memory_bytes_max: u64,
}

impl Totals {
    /// Sums over columns.
    pub fn of(successes: &Successes) -> Totals {
        let squared =
            |us: u64| (u128::from(us) * u128::from(us) / 1_000_000).min(u128::from(u64::MAX)) as u64;
        Totals {
            n: successes.tasks.len(),
            wall_us: successes.wall_us.iter().fold(0, |sum, us| sum.saturating_add(*us)),
            wall_squared: successes.wall_us.iter().fold(0, |sum, us| sum.saturating_add(squared(*us))),
            cpu_us: successes.cpu_us.iter().fold(0, |sum, us| sum.saturating_add(*us)),
            memory_bytes_max: successes.memory_bytes.iter().copied().max().unwrap_or(0),
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: &Totals) {
        self.n = self.n.saturating_add(other.n);
        self.wall_us = self.wall_us.saturating_add(other.wall_us);
        self.wall_squared = self.wall_squared.saturating_add(other.wall_squared);
        self.cpu_us = self.cpu_us.saturating_add(other.cpu_us);
        self.memory_bytes_max = self.memory_bytes_max.max(other.memory_bytes_max);
    }

    /// Mean wall time; `None` before the first.
    pub fn wall_mean(&self) -> Option<Span> {
        self.wall_us.checked_div(self.n).map(Span)
    }

    /// Standard deviation of the wall time; `None` before the first.
    pub fn wall_deviation(&self) -> Option<Span> {
        let mean = self.wall_mean()?.as_secs_f64();
        let mean_square = self.wall_squared as f64 / 1e6 / self.n as f64;
        Some(Span(((mean_square - mean * mean).max(0.0).sqrt() * 1e6) as u64))
    }
}

/// One failed attempt and what follows from it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// Which task.
    pub index: u64,
    /// Which attempt of it, from 1.
    pub attempt: u32,
    /// Why.
    pub kind: FailureKind,
    /// What it used.
    pub usage: Usage,
    /// What follows.
    pub verdict: Verdict,
}

/// What follows from a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// It will be tried again, not before this time.
    Retry {
        /// When at the earliest.
        at: Time,
    },
    /// Its budget is used up: the task has failed.
    Final,
}
