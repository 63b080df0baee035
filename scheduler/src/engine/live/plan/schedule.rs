//! The time at which there is to be another plan.

use std::collections::BTreeMap;

use crate::{
    ids::{JobId, PlatformId},
    time::Time,
};

/// Of the guide: when there is to be another one.
#[derive(Clone, Debug, Default)]
pub struct PlanSchedule {
    /// Questions asked in this life of the manager.
    pub(in crate::engine) n_asked: u64,
    pub(in crate::engine) due_at: Option<Time>,
    pub(in crate::engine) pending: Option<Pending>,
    /// A job has something queued that had nothing, or the other way round.
    pub queues_changed: bool,
}

/// A question that is not answered yet, and what the answer will not know.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Pending {
    pub(in crate::engine) number: u64,
    /// Tasks that pilots of a platform have taken of a job.
    pub(in crate::engine) taken: BTreeMap<(PlatformId, JobId), u64>,
    /// Platforms whose cores stand for more vCPUs.
    pub(in crate::engine) raised: Vec<PlatformId>,
    /// Another answer is wanted after this one.
    pub(in crate::engine) is_wanted_anew: bool,
}
