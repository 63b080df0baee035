//! Allocations that may be there and that nobody looks after: their platform is not configured any more, or is another one
//! of the same name. They are never ended by what that one lists, and nothing of them is cancelled there.

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

/// What is said of an allocation of whose platform nothing is heard.
const NOT_CONFIGURED: &str = "its platform is not in the manager's configuration, so nobody looks whether it is there; \
     put the platform back, or drop it with `pilotfish allocation cancel`";

/// The same where the store is only read.
const NO_MANAGER: &str = "no manager runs, so nobody looks whether it is there";

impl Reader<'_> {
    /// Whether nobody looks after an allocation that may be there, as its platform is not configured, or is another one.
    pub(in crate::engine) fn is_forsaken(&self, held: &Allocation) -> bool {
        let state = self.live.platforms.get(&held.platform);
        held.may_be_there() && (held.is_left_behind || state.is_none_or(|state| !state.is_attached))
    }

    /// What is said of such an allocation.
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
    /// Tells once in the manager's life that allocations of a platform were left behind.
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

    /// Whether an entry of a platform's listing is of an allocation that was left behind. If the platform is its own, it is
    /// the same batch system by another way, and cares for it from now on.
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

    /// Cancels the batch job of an allocation, unless it was left behind: its id may be another job's where its platform is
    /// asked now.
    pub(in crate::engine) fn cancel_batch_job(&mut self, id: AllocationId) {
        let held = self.durable.allocations().get(&id).filter(|held| !held.is_left_behind);
        let Some(held) = held else { return };
        if let Some(batch_id) = held.batch_id.clone() {
            let (platform, batch_ids) = (held.platform, vec![batch_id]);
            self.step.effects.push(Effect::Cancel { platform, batch_ids });
        }
    }

    /// What may be left on platforms when the manager ends, beside what it has cancelled.
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
                // Of what was cancelled its platform's worker tells.
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

/// The id of an allocation's batch job, or its name where nobody knows the id.
fn batch_job(held: &Allocation) -> String {
    held.batch_id.clone().unwrap_or_else(|| held.tag.clone())
}
