//! Answers to requests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    engine::interface::{
        refusal::Refusal,
        views::{
            AllocationView, HoldingsView, JobView, PilotView, PlatformView, SessionView, StatusView,
            TaskView, policies::PoliciesView, profile::ProfileView, weights::WeightsView,
        },
    },
    explain::Reason,
    ids::{JobId, PlatformId},
    pull::{PullAnswer, Registered},
    ranges::TaskSet,
    time::Time,
};

/// The batch jobs that may be left on a platform when the manager ends, for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftThere {
    /// The platform's name.
    pub platform: String,
    /// The ids of the batch jobs, or their names where the ids are unknown.
    pub batch_jobs: Vec<String>,
    /// The reason why they may be left.
    pub why: String,
}

/// The answer to a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The platform is attached, now or since an earlier request.
    Attached(PlatformId),
    /// The job is accepted, now or by an earlier submission (`is_repeat`).
    Submitted {
        /// The job's id.
        job: JobId,
        /// Whether an earlier submission had the same key.
        is_repeat: bool,
    },
    /// The stages are accepted under these ids, now or by an earlier submission (`is_repeat`).
    WorkflowSubmitted {
        /// The ids of the jobs, in the order of the stages.
        jobs: Vec<JobId>,
        /// Whether an earlier submission had the same key.
        is_repeat: bool,
    },
    /// The jobs, tasks and bytes that a user has in the manager.
    Holdings(Box<HoldingsView>),
    /// The change is made.
    Changed {
        /// Number of tasks that were cancelled or reopened.
        n_tasks: u64,
        /// Number of done tasks that depend, directly or not, on the reopened tasks. They stay done.
        n_stale: u64,
    },
    /// The change of tokens is recorded.
    TokensKept {
        /// The time of the change.
        at: Time,
    },
    /// The pilot is registered.
    Registered(Registered),
    /// The answer to a pilot's pull.
    Pull(PullAnswer),
    /// The pilot may exit.
    Left,
    /// The pilot's steal request is passed on to another pilot, if tasks wait at any.
    HuntPassedOn {
        /// Whether it was passed on to a pilot.
        is_any_asked: bool,
    },
    /// All pilots have ended. The batch jobs that may be left although the manager cancelled all that it
    /// knows.
    ShutDown(Vec<LeftThere>),
    /// The totals of the manager.
    Status(Box<StatusView>),
    /// Jobs, oldest first.
    Jobs(Vec<JobView>),
    /// One job.
    Job(Box<JobView>),
    /// One task.
    Task(Box<TaskView>),
    /// Pilots, by id.
    Pilots(Vec<PilotView>),
    /// Platforms, by id.
    Platforms(Vec<PlatformView>),
    /// The name of a platform.
    PlatformName(String),
    /// The platform as it is now.
    PlatformChanged(Box<PlatformView>),
    /// Allocations, by id.
    Allocations(Vec<AllocationView>),
    /// One allocation.
    Allocation(Box<AllocationView>),
    /// The profiles, by name of the application.
    Profiles(Vec<ProfileView>),
    /// The policies.
    Policies(Box<PoliciesView>),
    /// The weights.
    Weights(Box<WeightsView>),
    /// Reasons, the decisive one first.
    Reasons(Vec<Reason>),
    /// The data that a pilot may access.
    Session(Box<SessionView>),
    /// The job's resolved description as JSON.
    Spec(Arc<str>),
    /// Tasks.
    Tasks(TaskSet),
    /// The tasks that the task waits for, by entry of `after`: their job and their indices.
    WaitedFor(Vec<(JobId, TaskSet)>),
    /// The request is refused.
    Refused(Refusal),
}
