//! The schedule of plans.

use std::collections::BTreeMap;

use crate::{
    ids::{JobId, PlatformId},
    time::Time,
};

/// The time of the next plan, and the request that is under way.
#[derive(Clone, Debug, Default)]
pub struct PlanSchedule {
    /// Number of plans requested in this epoch.
    pub(in crate::engine) n_asked: u64,
    pub(in crate::engine) due_at: Option<Time>,
    pub(in crate::engine) pending: Option<Pending>,
    /// Whether some job got its first ready task or lost its last one.
    pub queues_changed: bool,
}

/// A plan request that is not answered yet, and the changes that its answer will not know.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Pending {
    pub(in crate::engine) number: u64,
    /// Number of tasks that pilots of a platform have taken of a job.
    pub(in crate::engine) taken: BTreeMap<(PlatformId, JobId), u64>,
    /// Platforms whose vCPU ratio has risen.
    pub(in crate::engine) raised: Vec<PlatformId>,
    /// Whether another plan is needed after this one.
    pub(in crate::engine) is_wanted_anew: bool,
}
