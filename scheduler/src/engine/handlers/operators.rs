//! Operators' requests for platforms and allocations.

use crate::{
    engine::{
        interface::{
            RequestId,
            answer::Answer,
            event::PlatformChange,
            platform::platform_spec::{PlatformMode, PlatformSpec},
            refusal::Refusal,
        },
        read::views::Reader,
        record::{DrainCause, Record},
        state::allocation::{Allocation, AllocationState},
        turn::Turn,
    },
    ids::{AllocationId, PilotId, PlatformId},
    pull::PilotCommand,
};

impl Turn<'_> {
    pub(in crate::engine) fn change_platform(
        &mut self,
        request: RequestId,
        name: String,
        change: PlatformChange,
    ) {
        let found = self.durable.platforms().iter().find(|(_, spec)| spec.name == name);
        let Some((id, spec)) = found.map(|(id, spec)| (*id, spec.clone())) else {
            return self.refuse(request, Refusal::NoPlatform(name));
        };
        let n_pilots = self.durable.allocation_counts(id).n_there;
        match change {
            PlatformChange::Mode(mode) if mode == self.durable.mode(id) => {}
            PlatformChange::Mode(_) if self.durable.mode(id) == PlatformMode::Detached => {
                return self.refuse(request, Refusal::Detached(name));
            }
            PlatformChange::Mode(PlatformMode::Detached) if n_pilots > 0 => {
                return self.refuse(request, Refusal::InUse { platform: name, n_pilots });
            }
            PlatformChange::Mode(mode) => {
                self.record(Record::PlatformModeSet { platform: id, mode, at: self.now });
                self.dissolve_profiling(id);
            }
            PlatformChange::Limits { n_pilots_max, limits } => {
                let n_pilots_min = spec.n_pilots_min.min(n_pilots_max);
                let changed = PlatformSpec { n_pilots_min, n_pilots_max, limits, ..spec.clone() };
                if changed != spec {
                    self.record(Record::PlatformAttached { platform: id, spec: changed, at: self.now });
                }
            }
        }
        // Tasks may start now that could not before.
        self.live.stir_all();
        if self.durable.mode(id) == PlatformMode::Draining {
            self.drain_platform(id);
        }
        self.live.arm_platform(id, self.now);
        self.arm_scaling(id);
        let view = Reader::new(self.settings, self.durable, self.live, self.now).platform(id);
        match view {
            Some(view) => self.answer(request, Answer::PlatformChanged(Box::new(view))),
            None => self.refuse(request, Refusal::NoPlatform(name)),
        }
    }

    fn drain_platform(&mut self, id: PlatformId) {
        let is_there = |pilot: &PilotId| self.durable.pilots().get(pilot).is_some_and(|p| p.platform == id);
        let pilots: Vec<PilotId> = self.live.pilots.keys().copied().filter(is_there).collect();
        for pilot in pilots {
            self.drain_pilot(pilot, DrainCause::Platform);
        }
        self.cancel_queued(id);
    }

    /// Cancels a platform's allocations that wait for their pilot, or that have not been requested yet.
    pub(in crate::engine) fn cancel_queued(&mut self, platform: PlatformId) {
        let there: Vec<AllocationId> = self.durable.allocations_there(platform).map(|(id, _)| id).collect();
        self.withdraw(platform, there.into_iter());
        let has_none = |held: &Allocation| self.durable.live_pilots(held).is_empty();
        let is_queued = |held: &Allocation| held.state == AllocationState::Submitted && has_none(held);
        let there = self.durable.allocations_there(platform);
        let queued: Vec<AllocationId> = there.filter(|(_, held)| is_queued(held)).map(|(id, _)| id).collect();
        self.cancel_allocations(platform, &queued);
    }

    /// Returns the reason if nothing more may start there: allocations of earlier submissions are then not
    /// wanted.
    pub(in crate::engine) fn winding_up(&self, platform: PlatformId) -> Option<DrainCause> {
        match (&self.live.shutdown, self.durable.mode(platform)) {
            (Some(_), _) => Some(DrainCause::Shutdown),
            (None, PlatformMode::Draining | PlatformMode::Detached) => Some(DrainCause::Platform),
            (None, PlatformMode::Active | PlatformMode::Paused) => None,
        }
    }

    pub(in crate::engine) fn cancel_asked(&mut self, request: RequestId, id: AllocationId, is_urgent: bool) {
        let Some(held) = self.durable.allocations().get(&id) else {
            return self.refuse(request, Refusal::UnknownAllocation(id));
        };
        let reader = Reader::new(self.settings, self.durable, self.live, self.now);
        if reader.is_forsaken(held) && self.durable.live_pilots(held).is_empty() {
            return self.drop_forsaken(request, id);
        }
        let held = &self.durable.allocations()[&id];
        if !held.is_live() {
            let word = held.state_word();
            return self.refuse(request, Refusal::AllocationOver(id, word));
        }
        let (platform, pilots) = (held.platform, self.durable.live_pilots(held));
        if pilots.is_empty() {
            self.cancel_allocations(platform, &[id]);
        }
        for pilot in pilots {
            self.drain_pilot(pilot, DrainCause::Cancelled);
            if is_urgent {
                self.command(pilot, PilotCommand::Stop);
            }
        }
        let reader = Reader::new(self.settings, self.durable, self.live, self.now);
        let view = reader.allocation(id, &self.durable.allocations()[&id]);
        self.answer(request, Answer::Allocation(Box::new(view)));
    }

    /// Counts an allocation as ended at an operator's word, because nothing is heard of its platform: its
    /// batch job may still be there, and only the operator can look.
    fn drop_forsaken(&mut self, request: RequestId, id: AllocationId) {
        let is_left_behind = self.durable.allocations().get(&id).is_some_and(|held| held.is_left_behind);
        let what = if is_left_behind { "is another one now" } else { "is not configured any more" };
        let why = format!("an operator dropped it, as its platform {what}: its batch job may be there still");
        let at = self.now;
        let (allocation, was_unlisted) = (id, false);
        self.record(Record::AllocationEnded { allocation, why, cause: None, was_unlisted, at });
        let reader = Reader::new(self.settings, self.durable, self.live, self.now);
        let view = reader.allocation(id, &self.durable.allocations()[&id]);
        self.answer(request, Answer::Allocation(Box::new(view)));
    }
}
