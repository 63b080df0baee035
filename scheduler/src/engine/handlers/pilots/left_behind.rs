//! Allocations that were left behind: they may be there, but no platform looks after them, because their
//! platform is no longer configured, or another platform has its name. They never end by a listing of the
//! other platform, and nothing of them is cancelled there.

use crate::{
    engine::{
        interface::{
            answer::LeftThere, effect::Effect, notice::Notice, platform::allocation::ListedAllocation,
        },
        read::views::Reader,
        record::Record,
        state::allocation::{Allocation, Origin},
        turn::Turn,
    },
    ids::{AllocationId, PilotId, PlatformId},
};

/// The message for an allocation of whose platform nothing is heard.
const NOT_CONFIGURED: &str = "its platform is not in the manager's configuration, so nobody looks whether it is there; \
     put the platform back, or drop it with `pilotfish allocation cancel`";

/// The message if the store is only read.
const NO_MANAGER: &str = "no manager runs, so nobody looks whether it is there";

impl Reader<'_> {
    /// Returns whether an allocation may be there and no platform looks after it: its platform is not
    /// configured, or is another one.
    pub(in crate::engine) fn is_forsaken(&self, held: &Allocation) -> bool {
        let state = self.live.platforms.get(&held.platform);
        held.may_be_there() && (held.is_left_behind || state.is_none_or(|state| !state.is_attached))
    }

    /// Returns the message for a forsaken allocation; `None` for any other allocation.
    pub(in crate::engine) fn forsaken_words(&self, held: &Allocation) -> Option<String> {
        let spec = self.durable.platforms().get(&held.platform);
        match spec {
            _ if !self.is_forsaken(held) => None,
            _ if self.settings.only_reads => Some(NO_MANAGER.to_owned()),
            Some(spec) if held.is_left_behind => Some(format!(
                "it was asked of {}, and its platform is {} now, so nobody looks whether it is there; put the platform back, \
                 or drop it with `pilotfish allocation cancel`",
                held.origin,
                Origin::of(spec)
            )),
            Some(_) | None => Some(NOT_CONFIGURED.to_owned()),
        }
    }
}

impl Turn<'_> {
    /// Notifies watchers that allocations of a platform were left behind.
    pub(in crate::engine) fn tell_left_behind(&mut self, id: PlatformId) {
        let is_left = |held: &&Allocation| held.platform == id && held.is_left_behind && held.may_be_there();
        let left: Vec<&Allocation> = self.durable.allocations().values().filter(is_left).collect();
        let (Some(first), Some(spec)) = (left.first(), self.durable.platforms().get(&id)) else { return };
        let notice = Notice::LeftBehind {
            platform: spec.name.clone(),
            asked_of: first.origin.to_string(),
            now: Origin::of(spec).to_string(),
            batch_jobs: left.iter().map(|held| batch_job(held)).collect(),
        };
        self.notify(notice);
    }

    /// Returns whether an entry of a platform's listing is an allocation that was left behind. If the
    /// allocation is one of this platform, the platform reaches the same batch system in another way, and
    /// looks after it from now on.
    pub(in crate::engine) fn finds_again(&mut self, id: PlatformId, entry: &ListedAllocation) -> bool {
        let is_left = |(_, held): &(AllocationId, &Allocation)| held.may_be_there() && held.is_left_behind;
        let Some((allocation, held)) = self.durable.allocation_of(&entry.tag).filter(is_left) else {
            return false;
        };
        if held.platform != id {
            return true;
        }
        let (is_wanted, is_unused) = (held.is_live(), held.is_unused());
        let (batch_id, was_listed) = (entry.batch_id.clone(), true);
        self.record(Record::AllocationSubmitted { allocation, batch_id, was_listed, at: self.now });
        if !is_wanted || (is_unused && self.winding_up(id).is_some()) {
            self.cancel_allocations(id, &[allocation]);
        }
        true
    }

    /// Cancels the batch job of an allocation, unless the allocation was left behind: the id may be another
    /// job's on the platform as it is now.
    pub(in crate::engine) fn cancel_batch_job(&mut self, id: AllocationId) {
        let held = self.durable.allocations().get(&id).filter(|held| !held.is_left_behind);
        let Some(held) = held else { return };
        if let Some(batch_id) = held.batch_id.clone() {
            let (platform, batch_ids) = (held.platform, vec![batch_id]);
            self.step.effects.push(Effect::Cancel { platform, batch_ids });
        }
    }

    /// Returns the allocations that may be left on platforms when the manager ends, beside those that it has
    /// cancelled.
    pub(in crate::engine) fn left_there(&self) -> Vec<LeftThere> {
        let reader = Reader::new(self.settings, self.durable, self.live, self.now);
        let mut left: Vec<LeftThere> = Vec::new();
        for held in self.durable.allocations().values().filter(|held| held.may_be_there()) {
            let has_left = |id: &PilotId| self.durable.pilots().get(id).is_some_and(|pilot| pilot.has_left);
            let have_all_left = !held.is_unused() && held.came.iter().all(has_left);
            let words = match reader.forsaken_words(held) {
                // Its batch job ends with its pilots.
                Some(_) if have_all_left && held.n_waiting() == 0 => continue,
                Some(words) => words,
                // The worker of the platform reports on allocations that were cancelled.
                None if held.batch_id.is_none() && held.is_unused() => {
                    "its platform has not said whether it is there; the next manager asks".to_owned()
                }
                None => continue,
            };
            let (platform, job) = (self.durable.platform_name(held.platform), batch_job(held));
            match left.iter_mut().find(|left| left.platform == platform && left.why == words) {
                Some(left) => left.batch_jobs.push(job),
                None => left.push(LeftThere { platform, batch_jobs: vec![job], why: words }),
            }
        }
        left
    }
}

/// Returns the id of an allocation's batch job, or its name if the id is unknown.
fn batch_job(held: &Allocation) -> String {
    held.batch_id.clone().unwrap_or_else(|| held.tag.clone())
}
