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

/// Batch jobs that may be left on a platform when the manager ends, for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftThere {
    /// The platform's name.
    pub platform: String,
    /// Their ids, or their names where the ids are not known.
    pub batch_jobs: Vec<String>,
    /// Why they may be left.
    pub why: String,
}

/// What whoever asked is told.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The platform is attached, or the one that was asked for.
    Attached(PlatformId),
    /// The job is kept; it had been submitted before when `is_repeat`.
    Submitted {
        /// Its number.
        job: JobId,
        /// Whether this submission was known.
        is_repeat: bool,
    },
    /// The stages are kept, under these numbers; they had been submitted before when `is_repeat`.
    WorkflowSubmitted {
        /// Their numbers, in the order in which they were given.
        jobs: Vec<JobId>,
        /// Whether this submission was known.
        is_repeat: bool,
    },
    /// What a user has of jobs.
    Holdings(Box<HoldingsView>),
    /// The change is made; so many tasks were concerned.
    Changed {
        /// Tasks cancelled or opened again.
        n_tasks: u64,
        /// Done tasks that ran without tasks which are open again, and what followed from them. They stay as they are.
        n_stale: u64,
    },
    /// What was said of tokens is kept, as of this time.
    TokensKept {
        /// When.
        at: Time,
    },
    /// The pilot is known from now on.
    Registered(Registered),
    /// For a pilot.
    Pull(PullAnswer),
    /// The pilot may go.
    Left,
    /// Another pilot is asked, if tasks wait at any.
    HuntPassedOn {
        /// Whether one is.
        is_any_asked: bool,
    },
    /// All pilots are gone. What may be left there beside what was cancelled.
    ShutDown(Vec<LeftThere>),
    /// Answers to queries.
    Status(Box<StatusView>),
    /// Jobs, oldest first.
    Jobs(Vec<JobView>),
    /// One job.
    Job(Box<JobView>),
    /// One task.
    Task(Box<TaskView>),
    /// Pilots by number.
    Pilots(Vec<PilotView>),
    /// Platforms by number.
    Platforms(Vec<PlatformView>),
    /// The name of a platform.
    PlatformName(String),
    /// The platform as it is now.
    PlatformChanged(Box<PlatformView>),
    /// Allocations by number.
    Allocations(Vec<AllocationView>),
    /// One allocation.
    Allocation(Box<AllocationView>),
    /// What was learned, by name of the application.
    Profiles(Vec<ProfileView>),
    /// The policies.
    Policies(Box<PoliciesView>),
    /// The weights.
    Weights(Box<WeightsView>),
    /// Reasons, the decisive one first.
    Reasons(Vec<Reason>),
    /// What a pilot may ask for.
    Session(Box<SessionView>),
    /// A job's spec.
    Spec(Arc<str>),
    /// Tasks.
    Tasks(TaskSet),
    /// Of each entry of `after`: whose tasks, and which.
    WaitedFor(Vec<(JobId, TaskSet)>),
    /// No.
    Refused(Refusal),
}
