//! The state of the policy that moves weights.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{JobId, PlatformId},
    policy::distribution::LoadAndError,
    resources::Resources,
};

/// What tasks have in common that a law cannot tell apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct TaskClass {
    /// Their application.
    pub application: String,
    /// What each needs.
    pub needs: Resources,
}

/// A law that goes on from job to job, and how far it has come.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WeightPolicyState {
    /// Its columns.
    pub platforms: Vec<PlatformId>,
    /// Its rows.
    pub kinds: Vec<TaskClass>,
    /// Its weights, and what it remembers of jobs.
    pub law: LoadAndError,
    /// The last job that it knows of.
    pub last: JobId,
    /// Tasks that waited on each platform, or were held there, when that came.
    pub queued: Vec<u64>,
}
