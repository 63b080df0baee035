//! A profiling run.

use std::collections::BTreeMap;

use crate::{
    ids::{JobId, PilotId},
    time::Time,
};

/// A platform's profiling run.
#[derive(Clone, Debug)]
pub struct ProfilingRun {
    /// Whose.
    pub(in crate::engine) user: String,
    /// Of each job that is not over, how many tasks of its application at a time.
    pub(in crate::engine) slots: BTreeMap<JobId, u64>,
    /// Whose node it has; `None`: none yet.
    pub(in crate::engine) pilot: Option<PilotId>,
    /// When its last job ended.
    pub(in crate::engine) ended_at: Time,
}

impl ProfilingRun {
    /// Whose node it has.
    pub fn pilot(&self) -> Option<PilotId> {
        self.pilot
    }

    /// Of each job that is not over, how many tasks of its application at a time.
    pub fn slots(&self) -> &BTreeMap<JobId, u64> {
        &self.slots
    }

    pub(in crate::engine) fn goes_on(&self) -> bool {
        !self.slots.is_empty()
    }
}
