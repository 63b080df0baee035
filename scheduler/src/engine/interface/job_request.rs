//! The part of a job that the engine knows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    edges::{Dependence, OnFailedDependency},
    estimates::TaskEstimates,
    ids::JobId,
    pull::TaskNeeds,
    time::Span,
};

/// The part of a job that the engine uses. The rest is in `spec`, which the engine only passes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobRequest {
    /// The user that the job belongs to.
    pub user: String,
    /// The job's name, for people.
    pub name: String,
    /// The kind of program.
    pub application: String,
    /// Number of tasks: their indices are 0 .. n_tasks.
    pub n_tasks: u64,
    /// The resources and the time limit of each task.
    pub needs: TaskNeeds,
    /// The priority among the jobs of its user; higher first.
    pub priority: i32,
    /// Whether the priority counts among the jobs of all users, because an operator has allowed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub priority_over_all: bool,
    /// Number of retries after failures of the program.
    pub retries: u32,
    /// The wait before the first retry; it doubles with each retry.
    pub retry_delay: Span,
    /// Number of lost or preempted pilots after which a task is quarantined.
    pub crash_limit: u32,
    /// Number of failed tasks above which the rest of the job is cancelled.
    pub max_failures: Option<u64>,
    /// A key drawn by the submitter, so that a repeated submission is recognized.
    pub submission_key: Option<String>,
    /// The relative sizes of the tasks, if the job declares them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimates: Option<TaskEstimates>,
    /// The tasks that the job's tasks wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Dependence>,
    /// The rule for tasks whose dependencies fail.
    #[serde(default, skip_serializing_if = "OnFailedDependency::is_default")]
    pub on_failed_dependency: OnFailedDependency,
    /// The first job of the workflow that the job is a stage of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<JobId>,
    /// The resolved job as JSON.
    pub spec: Arc<str>,
}

impl JobRequest {
    /// Returns the priority among the jobs of all users: 0 unless an operator has allowed another.
    pub fn rank(&self) -> i32 {
        if self.priority_over_all { self.priority } else { 0 }
    }
}
