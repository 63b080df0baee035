//! Keeps track of tasks at their last chance: one more lost pilot quarantines them, so they run alone.

use crate::{engine::turn::Turn, ids::JobId};

impl Turn<'_> {
    /// Updates a job's last chances after its tasks were blamed for a lost pilot, or have ended.
    pub(in crate::engine) fn note_last_chances(&mut self, id: JobId) {
        if let Some(job) = self.durable.jobs().get(&id) {
            self.live.set_last_chances(id, job);
        }
    }
}
