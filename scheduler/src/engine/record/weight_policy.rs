//! The state of the policy that sets weights.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{JobId, PlatformId},
    policy::distribution::LoadAndError,
    resources::Resources,
};

/// A task class: the properties by which a policy tells tasks apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct TaskClass {
    /// The application of the tasks.
    pub application: String,
    /// The resources of each task.
    pub needs: Resources,
}

/// The state of a policy that carries over from job to job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WeightPolicyState {
    /// The columns.
    pub platforms: Vec<PlatformId>,
    /// The rows.
    pub kinds: Vec<TaskClass>,
    /// The weights, and the policy's memory of jobs.
    pub law: LoadAndError,
    /// The last job that is included.
    pub last: JobId,
    /// Number of tasks that waited for or were held on each platform when that job came.
    pub queued: Vec<u64>,
}
