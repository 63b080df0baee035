//! A profiling run.

use std::collections::BTreeMap;

use crate::{
    ids::{JobId, PilotId},
    time::Time,
};

/// A platform's profiling run.
#[derive(Clone, Debug)]
pub struct ProfilingRun {
    /// The user of the run.
    pub(in crate::engine) user: String,
    /// Number of tasks at a time of each job that has not ended.
    pub(in crate::engine) slots: BTreeMap<JobId, u64>,
    /// The pilot whose node is used; `None`: none yet.
    pub(in crate::engine) pilot: Option<PilotId>,
    /// The time at which its last job ended.
    pub(in crate::engine) ended_at: Time,
}

impl ProfilingRun {
    /// Returns the pilot whose node is used.
    pub fn pilot(&self) -> Option<PilotId> {
        self.pilot
    }

    /// Returns the number of tasks at a time of each job that has not ended.
    pub fn slots(&self) -> &BTreeMap<JobId, u64> {
        &self.slots
    }

    pub(in crate::engine) fn goes_on(&self) -> bool {
        !self.slots.is_empty()
    }
}
