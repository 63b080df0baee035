//! The cores that are offered to tasks, and the jobs that hold them.

use std::collections::BTreeMap;

use super::PilotCore;
use crate::{ids::JobId, resources::Resources};

impl PilotCore {
    /// Sets the number of cores that tasks may have from now on.
    pub(super) fn offer(&mut self, cores: u32) {
        let n_used = (self.limits.capacity.cores - self.free.cores).saturating_add(self.n_cores_over);
        self.limits.capacity.cores = cores;
        self.free.cores = cores.saturating_sub(n_used);
        self.n_cores_over = n_used.saturating_sub(cores);
    }

    /// Frees the resources of a task, as far as they are still offered.
    pub(super) fn come_free(&mut self, needs: &Resources) {
        self.free.give_back(needs, 1);
        let n_over = self.n_cores_over.min(self.free.cores);
        self.free.cores -= n_over;
        self.n_cores_over -= n_over;
    }

    /// Returns the number of cores on which tasks of each job run.
    pub(super) fn cores_held(&self) -> BTreeMap<JobId, u64> {
        let mut cores = BTreeMap::new();
        for (task, running) in &self.running {
            *cores.entry(task.job).or_default() += u64::from(running.needs.cores);
        }
        cores
    }
}
