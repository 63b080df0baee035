//! What operators ask of platforms and allocations.

use std::collections::BTreeMap;

use super::{
    Turn,
    durable::AllocationState,
    interface::{Answer, Effect, PlatformChange, PlatformMode, PlatformSpec, Refusal, RequestId},
    record::{DrainCause, Record},
    views::Reader,
};
use crate::{
    ids::{AllocationId, PilotId, PlatformId},
    pull::PilotCommand,
};

impl Turn<'_> {
    pub(super) fn change_platform(&mut self, request: RequestId, name: String, change: PlatformChange) {
        let found = self.durable.platforms().iter().find(|(_, spec)| spec.name == name);
        let Some((id, spec)) = found.map(|(id, spec)| (*id, spec.clone())) else {
            return self.refuse(request, Refusal::NoPlatform(name));
        };
        match change {
            PlatformChange::Mode(mode) if mode == self.durable.mode(id) => {}
            PlatformChange::Mode(mode) => {
                self.record(Record::PlatformModeSet { platform: id, mode, at: self.now });
            }
            PlatformChange::Limits { n_pilots_max, limits } => {
                let n_pilots_min = spec.n_pilots_min.min(n_pilots_max);
                let changed = PlatformSpec { n_pilots_min, n_pilots_max, limits, ..spec.clone() };
                if changed != spec {
                    self.record(Record::PlatformAttached { platform: id, spec: changed, at: self.now });
                }
            }
        }
        if self.durable.mode(id) == PlatformMode::Draining {
            self.drain_platform(id);
        }
        self.volatile.arm_platform(id, self.now);
        let view = Reader::new(self.settings, self.durable, self.volatile, self.now).platform(id);
        match view {
            Some(view) => self.answer(request, Answer::PlatformChanged(Box::new(view))),
            None => self.refuse(request, Refusal::NoPlatform(name)),
        }
    }

    fn drain_platform(&mut self, id: PlatformId) {
        let is_there = |pilot: &PilotId| self.durable.pilots().get(pilot).is_some_and(|p| p.platform == id);
        let pilots: Vec<PilotId> = self.volatile.pilots.keys().copied().filter(is_there).collect();
        for pilot in pilots {
            self.drain_pilot(pilot, DrainCause::Platform);
        }
        self.cancel_queued(|platform| platform == id);
    }

    /// Cancels what waits for its pilot on these platforms.
    pub(super) fn cancel_queued(&mut self, is_meant: impl Fn(PlatformId) -> bool) {
        let waiting: Vec<AllocationId> = self
            .durable
            .allocations()
            .iter()
            .filter(|(_, held)| is_meant(held.platform))
            .filter(|(_, held)| held.pilot.is_none() && held.state == AllocationState::Submitted)
            .map(|(id, _)| *id)
            .collect();
        let mut batch_ids: BTreeMap<PlatformId, Vec<String>> = BTreeMap::new();
        for allocation in waiting {
            if let Some((platform, batch_id)) = self.release_unwanted(allocation) {
                batch_ids.entry(platform).or_default().push(batch_id);
            }
        }
        let cancel = |(platform, batch_ids)| Effect::Cancel { platform, batch_ids };
        self.step.effects.extend(batch_ids.into_iter().map(cancel));
    }

    /// Whether nothing more may begin there: what comes of earlier submissions is not wanted.
    pub(super) fn is_winding_up(&self, platform: PlatformId) -> bool {
        self.volatile.shutdown.is_some() || self.durable.mode(platform) == PlatformMode::Draining
    }

    pub(super) fn cancel_asked(&mut self, request: RequestId, id: AllocationId, is_urgent: bool) {
        let Some(held) = self.durable.allocations().get(&id) else {
            return self.refuse(request, Refusal::UnknownAllocation(id));
        };
        if !held.is_live() {
            let word = held.state_word();
            return self.refuse(request, Refusal::AllocationOver(id, word));
        }
        match held.pilot.filter(|pilot| self.volatile.pilots.contains_key(pilot)) {
            Some(pilot) => {
                self.drain_pilot(pilot, DrainCause::Cancelled);
                if is_urgent {
                    self.command(pilot, PilotCommand::Stop);
                }
            }
            None => self.cancel_allocation(id),
        }
        let reader = Reader::new(self.settings, self.durable, self.volatile, self.now);
        let view = reader.allocation(id, &self.durable.allocations()[&id]);
        self.answer(request, Answer::Allocation(Box::new(view)));
    }
}
