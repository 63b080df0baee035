//! The records that the store keeps. Control records are stored as JSON, reports as columns; the version of
//! the store's schema covers both. A field may be added with a default; none may change its meaning.

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
    /// An operator has set another mode for a platform.
    PlatformModeSet { platform: PlatformId, mode: PlatformMode, at: Time },
    /// The vCPU ratio of a platform has changed.
    PlatformScaled { platform: PlatformId, change: ScalingChange },
    /// Hosts of a cloud whose vCPU ratios will be changed, with their present ratios.
    RatiosFound { platform: PlatformId, providers: Vec<Provider>, at: Time },
    /// These hosts have their former ratios again, or ratios that somebody else has set since. An early
    /// version wrote no ids: then the ratios are restored once more.
    RatiosRestored {
        platform: PlatformId,
        #[serde(default)]
        ids: Vec<String>,
        at: Time,
    },
    /// The measurements of an application are forgotten.
    ProfileForgotten { application: String, at: Time },
    /// A user declares properties of an application, or removes the declaration (`None`).
    ProfileDeclared { application: String, declared: Option<Declared>, at: Time },
    /// An operator has set policies, which were `before`; the configuration had `configured` at that time.
    PoliciesSet { by: String, configured: Policies, before: Policies, policies: Policies, at: Time },
    /// A token was made for a user.
    TokenMade { token: UserToken, at: Time },
    /// Tokens are revoked.
    TokensRevoked { ids: Vec<TokenId>, by: String, at: Time },
    /// The times at which tokens were last used; recorded at most once an hour.
    TokensUsed { used: Vec<(TokenId, Time)>, at: Time },
    /// A job is accepted.
    JobAccepted { job: JobId, request: JobRequest, at: Time },
    /// No more tasks of the job start.
    JobPaused { job: JobId, at: Time },
    /// Tasks of the job start again.
    JobResumed { job: JobId, at: Time },
    /// An ended job is removed with the files of its tasks.
    JobPurged { job: JobId, by: String, at: Time },
    /// Tasks are cancelled; the open ones among these change.
    TasksCancelled { job: JobId, tasks: TaskSet, cause: CancelCause, at: Time },
    /// Tasks that failed or were cancelled are reopened.
    TasksReopened { job: JobId, tasks: TaskSet, at: Time },
    /// The accepted part of a pilot's report.
    Reported { pilot: PilotId, seq: u64, results: Vec<JobResult>, at: Time },
    /// Runtimes of tasks by co-runners.
    BesideMeasured { platform: PlatformId, beside: Vec<CoRunTimes>, at: Time },
    /// The resources that tasks used beside cores, by application, and the bytes of files that have moved for
    /// jobs.
    EffortsMeasured {
        platform: PlatformId,
        efforts: Vec<ResourceUse>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        moved: Vec<(JobId, MovedBytes)>,
        at: Time,
    },
    /// Weights have changed, for these reasons; and the state of a policy that carries over from job to job,
    /// if it changed.
    WeightsMoved { changes: Vec<WeightChange>, law: Option<WeightPolicyState>, at: Time },
    /// An allocation will be requested.
    AllocationIntended {
        allocation: AllocationId,
        platform: PlatformId,
        tag: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        because: Option<Box<ProvisionReason>>,
        at: Time,
    },
    /// It is there, possibly after it counted as ended; the platform's own id is empty if it is unknown.
    AllocationSubmitted {
        allocation: AllocationId,
        batch_id: String,
        /// Whether a listing of its platform has shown it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        was_listed: bool,
        at: Time,
    },
    /// It is unknown whether it is there.
    AllocationUnknown { allocation: AllocationId, what: String, at: Time },
    /// Only this many tasks of a job array are still there.
    AllocationShrunk { allocation: AllocationId, n_nodes: u32, at: Time },
    /// It is cancelled, or its pilot has left; the platform has not yet reported its end.
    AllocationReleased { allocation: AllocationId, why: String, at: Time },
    /// It is not there, or no longer there.
    AllocationEnded {
        allocation: AllocationId,
        why: String,
        /// The cause of the batch job's end, if the batch system states one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<EndCause>,
        /// Whether the only evidence is a listing that lacked it: its pilot may still register.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        was_unlisted: bool,
        at: Time,
    },
    /// A pilot registered. `born_at`: its start on the manager's clock.
    PilotRegistered {
        pilot: PilotId,
        allocation: AllocationId,
        nonce: u64,
        node: NodeFacts,
        born_at: Time,
        at: Time,
    },
    /// It drains: it gets no new tasks, now or after a restart.
    PilotDrained { pilot: PilotId, why: DrainCause, at: Time },
    /// It has left, after returning its tasks.
    PilotLeft { pilot: PilotId, why: String, at: Time },
    /// It was lost; these tasks may be the cause.
    PilotLost { pilot: PilotId, why: String, blamed: Vec<Blamed>, at: Time },
    /// A lost pilot has come back.
    PilotReturned { pilot: PilotId, at: Time },
    /// It still has these tasks: they were not the cause of its silence.
    BlameTakenBack { pilot: PilotId, tasks: Vec<(JobId, TaskSet)>, at: Time },
}

impl Record {
    /// Returns the time of the record.
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

/// The reason why tasks were cancelled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CancelCause {
    /// The user who cancelled them.
    User(String),
    /// More tasks failed than the job allows.
    MaxFailures {
        /// Number of failed tasks.
        n_failed: u64,
        /// Number of failures that the job allows.
        limit: u64,
    },
    /// This task, which they depend on, failed for good or was cancelled.
    Dependency(TaskId),
}

/// The reason why a pilot drains.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DrainCause {
    /// It had no work for its platform's idle timeout.
    Idle(Span),
    /// It fails task after task that others can run.
    BlackHole {
        /// Number of failures in a row.
        n_failures: u32,
    },
    /// The manager is shutting down.
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

/// A task that ran, or may have run, on a lost pilot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Blamed {
    /// The task.
    pub task: TaskId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The verdict on the task.
    pub verdict: Verdict,
}

/// The accepted results of one job in a report.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobResult {
    /// The job.
    pub job: JobId,
    /// The first successes. When read back from the store, only the task set is needed; columns may be empty.
    pub successes: Successes,
    /// The sums over the successes.
    pub totals: Totals,
    /// The failed attempts.
    pub failures: Vec<FailedAttempt>,
    /// The output of the tasks.
    pub outputs: Vec<TaskOutput>,
    /// The output files of the successful tasks.
    #[serde(default)]
    pub files: Vec<TaskFiles>,
}

/// Sums over ended attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Number of attempts.
    pub n: u64,
    /// The sum of their runtimes, in microseconds.
    pub wall_us: u64,
    /// The sum of the squared runtimes, in square seconds times 10^6 (for the variance).
    pub wall_squared: u64,
    /// The sum of their CPU times, in microseconds.
    pub cpu_us: u64,
    /// The largest peak memory, in bytes.
    pub memory_bytes_max: u64,
}

impl Totals {
    /// Returns the sums over columns.
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

    /// Adds other sums.
    pub fn add(&mut self, other: &Totals) {
        self.n = self.n.saturating_add(other.n);
        self.wall_us = self.wall_us.saturating_add(other.wall_us);
        self.wall_squared = self.wall_squared.saturating_add(other.wall_squared);
        self.cpu_us = self.cpu_us.saturating_add(other.cpu_us);
        self.memory_bytes_max = self.memory_bytes_max.max(other.memory_bytes_max);
    }

    /// Returns the mean runtime; `None` before the first attempt.
    pub fn wall_mean(&self) -> Option<Span> {
        self.wall_us.checked_div(self.n).map(Span)
    }

    /// Returns the standard deviation of the runtime; `None` before the first attempt.
    pub fn wall_deviation(&self) -> Option<Span> {
        let mean = self.wall_mean()?.as_secs_f64();
        let mean_square = self.wall_squared as f64 / 1e6 / self.n as f64;
        Some(Span(((mean_square - mean * mean).max(0.0).sqrt() * 1e6) as u64))
    }
}

/// A failed attempt and the verdict on its task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// The index of the task.
    pub index: u64,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The failure kind.
    pub kind: FailureKind,
    /// The resources that it used.
    pub usage: Usage,
    /// The verdict on the task.
    pub verdict: Verdict,
}

/// The consequence of a failed attempt for the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// The task will be retried.
    Retry {
        /// The earliest time of the retry.
        at: Time,
    },
    /// The task has failed: it has no retries left.
    Final,
}
