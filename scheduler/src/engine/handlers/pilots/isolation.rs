//! Tasks that one more lost pilot sets aside run alone.

use crate::{engine::turn::Turn, ids::JobId};

impl Turn<'_> {
    /// A job's tasks have been blamed for a lost pilot, or are no more.
    pub(in crate::engine) fn note_last_chances(&mut self, id: JobId) {
        if let Some(job) = self.durable.jobs().get(&id) {
            self.live.set_last_chances(id, job);
        }
    }
}
