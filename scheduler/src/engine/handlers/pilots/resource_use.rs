//! Resource use of tasks beside cores: disks, files, and the time until their programs start. Pilots send
//! sums with their pulls; these are recorded now and then.

use std::collections::BTreeMap;

use crate::{
    engine::{
        live::Live,
        record::{Record, resource_use::ResourceUse},
        state::learned::interference::KEPT_AFTER,
        turn::Turn,
    },
    ids::{JobId, PilotId, PlatformId},
    pull::{Effort, MovedBytes},
    time::Span,
};

/// The most jobs of a pull that are taken in.
const N_TOLD_MAX: usize = 1000;

impl Turn<'_> {
    /// Adds the bytes of files that a pilot says have moved.
    pub(in crate::engine) fn note_moved(&mut self, id: PilotId, moved: &[(JobId, MovedBytes)]) {
        let Some(platform) = self.durable.pilots().get(&id).map(|pilot| pilot.platform) else { return };
        for (job, more) in moved.iter().take(N_TOLD_MAX).filter(|(_, more)| !more.is_none()) {
            if self.durable.jobs().contains_key(job) {
                self.live.moved.entry((*job, platform)).or_default().add(more);
                self.live.arm_measured(self.now + KEPT_AFTER);
            }
        }
    }

    /// Adds the resources that a pilot says tasks have used.
    pub(in crate::engine) fn note_efforts(&mut self, id: PilotId, efforts: &[Effort]) {
        let Some(platform) = self.durable.pilots().get(&id).map(|pilot| pilot.platform) else { return };
        for effort in efforts.iter().take(N_TOLD_MAX).filter(|effort| effort.n > 0) {
            let Some(job) = self.durable.jobs().get(&effort.job) else { continue };
            let sums = self.live.efforts_of(platform, &job.request.application);
            sums.n = sums.n.saturating_add(effort.n);
            sums.io_bytes = sums.io_bytes.saturating_add(effort.io_bytes);
            sums.prepared_us = sums.prepared_us.saturating_add(effort.prepared_us);
            self.live.arm_measured(self.now + KEPT_AFTER);
        }
    }

    /// Adds the time for which a pilot's tasks wanted to compute and could not.
    pub(in crate::engine) fn note_starved(&mut self, id: PilotId, starved: &[(JobId, u64)]) {
        let Some(platform) = self.durable.pilots().get(&id).map(|pilot| pilot.platform) else { return };
        for (job, us) in starved.iter().take(N_TOLD_MAX).filter(|(_, us)| *us > 0) {
            let Some(job) = self.durable.jobs().get(job) else { continue };
            let sums = self.live.efforts_of(platform, &job.request.application);
            sums.starved_us = sums.starved_us.saturating_add(*us);
            self.live.arm_measured(self.now + KEPT_AFTER);
            self.note_starved_there(platform, Span(*us));
        }
    }

    /// Records the sums, one record per platform.
    pub(in crate::engine) fn keep_efforts(&mut self) {
        let mut by_platform = BTreeMap::<PlatformId, Vec<ResourceUse>>::new();
        for ((platform, _), effort) in std::mem::take(&mut self.live.efforts) {
            by_platform.entry(platform).or_default().push(effort);
        }
        let mut moved = BTreeMap::<PlatformId, Vec<(JobId, MovedBytes)>>::new();
        for ((job, platform), bytes) in std::mem::take(&mut self.live.moved) {
            moved.entry(platform).or_default().push((job, bytes));
            by_platform.entry(platform).or_default();
        }
        for (platform, efforts) in by_platform {
            let moved = moved.remove(&platform).unwrap_or_default();
            self.record(Record::EffortsMeasured { platform, efforts, moved, at: self.now });
        }
    }
}

impl Live {
    /// Returns the sums of an application's tasks on a platform that are not recorded yet.
    fn efforts_of(&mut self, platform: PlatformId, application: &str) -> &mut ResourceUse {
        let key = (platform, application.to_owned());
        self.efforts.entry(key).or_insert_with(|| ResourceUse {
            application: application.to_owned(),
            n: 0,
            io_bytes: 0,
            prepared_us: 0,
            starved_us: 0,
        })
    }
}
