//! A job, as far as the engine knows it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    edges::{Dependence, OnFailedDependency},
    estimates::TaskEstimates,
    ids::JobId,
    pull::TaskNeeds,
    time::Span,
};

/// What the engine must know of a job. The rest is in `spec`, which it only passes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobRequest {
    /// Whose it is.
    pub user: String,
    /// For people.
    pub name: String,
    /// The kind of program.
    pub application: String,
    /// How many tasks: indices 0 .. n_tasks.
    pub n_tasks: u64,
    /// What each task needs.
    pub needs: TaskNeeds,
    /// Higher first, among the jobs of its user.
    pub priority: i32,
    /// Whether its priority counts among the jobs of all users: an operator has allowed that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub priority_over_all: bool,
    /// How often a task is tried again after its program failed.
    pub retries: u32,
    /// The wait before the first retry; doubles with each.
    pub retry_delay: Span,
    /// How many pilots a task may take down before it is quarantined.
    pub crash_limit: u32,
    /// The rest of the job is cancelled when more tasks than this have failed.
    pub max_failures: Option<u64>,
    /// Drawn by the submitter, so that a repeated submission is known as the same.
    pub submission_key: Option<String>,
    /// How much more one task takes than another, where anybody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimates: Option<TaskEstimates>,
    /// What its tasks wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Dependence>,
    /// What becomes of those of them that wait for what fails.
    #[serde(default, skip_serializing_if = "OnFailedDependency::is_default")]
    pub on_failed_dependency: OnFailedDependency,
    /// The first job of the workflow of which it is a stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<JobId>,
    /// The resolved job as JSON.
    pub spec: Arc<str>,
}

impl JobRequest {
    /// Its priority among the jobs of all users: 0 unless an operator has allowed more.
    pub fn rank(&self) -> i32 {
        if self.priority_over_all { self.priority } else { 0 }
    }
}
