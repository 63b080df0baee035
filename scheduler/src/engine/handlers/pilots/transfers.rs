//! Transfers of tasks between pilots. The giver takes tasks from its queue and names the taker in a report.
//! The tasks are leased to the taker at once and sent with the answer to its parked pull. No pilot therefore
//! starts tasks that the manager has not sent to it, and the manager always knows which pilot holds which
//! tasks, even if a pilot is lost on the way. Tasks that the taker must not have become ready for all pilots.

use std::{cmp::Reverse, collections::BTreeSet, ops::Bound};

use crate::{
    engine::{
        dispatch::{candidate::has_room_for_templates, capacity::PilotCapacity, elsewhere::Elsewhere},
        interface::{RequestId, answer::Answer, refusal::Refusal},
        live::{Live, pilots::pilot_state::PilotState, platform::limits},
        turn::Turn,
    },
    ids::{JobId, PilotId, PlatformId},
    policy::stealing::PilotStealing,
    pull::{Bundle, PilotCommand},
    ranges::TaskSet,
    time::Span,
};

/// Tasks that their holder gives to another pilot.
pub(in crate::engine) type Gift = (PilotId, JobId, TaskSet);

/// Number of pilots to look at in search of the pilot at which most tasks wait.
const N_LOOKED_AT: usize = 1_000;

/// The least time between two searches on the same platform.
const HUNT_PAUSE: Span = Span::from_millis(10);

impl Live {
    fn note_gift(&mut self, giver: PilotId, to: PilotId, n_tasks: u64) {
        // A pilot that is gone needs no counts.
        if let Some(giver) = self.pilots.get_mut(&giver) {
            giver.n_given += n_tasks;
            giver.n_failed_steal_requests = 0;
        }
        if let Some(taker) = self.pilots.get_mut(&to) {
            taker.n_taken += n_tasks;
        }
    }
}

/// Returns how many tasks wait at a pilot, as far as is known; 0 if it has been asked for some already.
fn n_waiting(state: &PilotState) -> u64 {
    let unconfirmed = state.unconfirmed.iter().flat_map(|part| &part.commands);
    let is_give = |command: &PilotCommand| matches!(command, PilotCommand::Give { .. });
    if unconfirmed.chain(&state.commands).any(is_give) {
        return 0;
    }
    let n_running: u64 = state.running.values().map(TaskSet::len).sum();
    state.n_leased().saturating_sub(n_running)
}

impl Turn<'_> {
    /// Passes on the steal request of an idle pilot that cannot reach all others: the pilot at which most
    /// tasks wait gives as many as if it had been asked directly.
    pub(in crate::engine) fn pass_hunt_on(
        &mut self,
        request: RequestId,
        thief: PilotId,
        session_nonce: Option<u64>,
    ) {
        let platform = match self.pilot_of_session(thief, session_nonce) {
            Ok(pilot) if pilot.is_live() => pilot.platform,
            Ok(_) => return self.refuse(request, Refusal::SessionEnded(thief)),
            Err(refusal) => return self.refuse(request, refusal),
        };
        let victim = self.where_most_waits(platform, thief);
        if let Some(state) = victim.and_then(|victim| self.live.pilots.get_mut(&victim)) {
            state.n_failed_steal_requests = state.n_failed_steal_requests.saturating_add(1);
        }
        victim.inspect(|victim| self.command(*victim, PilotCommand::Give { to: thief }));
        self.answer(request, Answer::HuntPassedOn { is_any_asked: victim.is_some() });
    }

    /// Returns the pilot at which most tasks wait, among the next ones after the idle pilot; pilots that were
    /// asked in vain come last. Searches only now and then on a platform: otherwise pulls would wait.
    fn where_most_waits(&mut self, platform: PlatformId, thief: PilotId) -> Option<PilotId> {
        let now = self.now;
        let state = self.live.platforms.get_mut(&platform)?;
        if state.hunted_at.is_some_and(|at| now < at + HUNT_PAUSE) {
            return None;
        }
        state.hunted_at = Some(now);
        let pilots = &self.live.pilots;
        let after = pilots.range((Bound::Excluded(thief), Bound::Unbounded));
        let is_there =
            |id: &PilotId| self.durable.pilots().get(id).is_some_and(|one| one.platform == platform);
        let there = after.chain(pilots.range(..thief)).filter(|(id, _)| is_there(id)).take(N_LOOKED_AT);
        let waiting =
            there.map(|(id, state)| (Reverse(state.n_failed_steal_requests), n_waiting(state), *id));
        waiting.filter(|(_, n, _)| *n > 0).max().map(|(.., id)| id)
    }

    /// Tells a pilot the stealing policy. Before that, a new pilot takes no tasks from others and gives none.
    pub(in crate::engine) fn tell_stealing(&mut self, id: PilotId) {
        let policy = self.policies().stealing;
        if policy != PilotStealing::None {
            self.command(id, PilotCommand::Steal { policy });
        }
    }

    /// Tells all pilots a new stealing policy.
    pub(in crate::engine) fn tell_all_stealing(&mut self, policy: PilotStealing) {
        let pilots: Vec<PilotId> = self.live.pilots.keys().copied().collect();
        for id in pilots {
            self.command(id, PilotCommand::Steal { policy });
        }
    }

    /// Takes given tasks from the giver; returns the tasks that it held until now.
    pub(in crate::engine) fn take_gifts(&mut self, giver: PilotId, given: Vec<Gift>) -> Vec<Gift> {
        let taken = given.into_iter().map(|(to, job, tasks)| {
            let taken = self.unlease(giver, job, &tasks);
            self.make_ready(job, &taken);
            (to, job, taken)
        });
        taken.collect()
    }

    /// Leases tasks that have just become ready to the pilots to which they were given, as far as these may
    /// have them.
    pub(in crate::engine) fn hand_over(&mut self, giver: PilotId, gifts: Vec<Gift>) {
        let mut takers = BTreeSet::new();
        let mut is_any_left = false;
        for (to, job_id, tasks) in gifts.into_iter().filter(|(_, _, tasks)| !tasks.is_empty()) {
            let passed = self.that_may_go(giver, to, job_id, &tasks).unwrap_or_default();
            is_any_left |= passed.len() < tasks.len();
            let Some(job) = self.durable.jobs().get(&job_id).filter(|_| !passed.is_empty()) else { continue };
            let tried = job.tried(&passed);
            self.live.not_ready(job_id, &passed);
            self.live.note_gift(giver, to, passed.len());
            self.lease(to, job_id, &passed);
            self.send_part(to, vec![Bundle { job: job_id, tasks: passed, tried, is_given: true }]);
            takers.insert(to);
        }
        if is_any_left {
            self.want_plan();
        }
        takers.into_iter().for_each(|to| self.answer_parked(to));
    }

    /// Returns those of these tasks that the pilot may have from the giver. Both must be on the same
    /// platform, so that the parts of users and applications there stay as they are.
    fn that_may_go(&self, giver: PilotId, to: PilotId, job_id: JobId, tasks: &TaskSet) -> Option<TaskSet> {
        let (durable, live) = (&*self.durable, &*self.live);
        let platform = durable.pilots().get(&giver)?.platform;
        let (state, job) = (live.pilots.get(&to)?, durable.jobs().get(&job_id)?);
        let leases = live.jobs.get(&job_id).filter(|leases| leases.profiled_on.is_none())?;
        let offer = PilotCapacity::new(self.settings, durable, live, self.now, to)?;
        let is_for_others = state.reservation.is_some_and(|kept| kept.job != job_id);
        // Tasks that are not sent at once might end, or be lost with their pilot, before they are sent.
        let is_listening = state.parked.is_some();
        let takes = giver != to
            && is_listening
            && !state.is_doubted
            && !live.holds_alone(state)
            && self.takes_tasks(to)
            && !is_for_others
            && !job.is_paused;
        if !takes || offer.pilot.platform != platform || !offer.could_run(job) {
            return None;
        }
        let none = Bundle { job: job_id, tasks: TaskSet::new(), tried: Vec::new(), is_given: true };
        if !has_room_for_templates(self.settings, durable, live, to, &[none]) {
            return None;
        }
        let mut ready = tasks.intersection(&leases.ready);
        ready.remove_all(&live.not_for(to, job_id));
        let elsewhere = Elsewhere { settings: self.settings, durable, live, now: self.now };
        ready.remove_all(&elsewhere.not_for(to, job_id));
        // As many as it would be sent of the shortest tasks.
        let depth = self.settings.prefetch_tasks_max.max(1);
        let n_slots = self.n_slots(to, job_id);
        let n_most = match offer.is_careful(job_id) {
            true => live.most_at_a_time(job_id, n_slots),
            false => n_slots.saturating_mul(depth),
        };
        let n_held = state.leases.get(&job_id).map_or(0, TaskSet::len);
        let n_allowed = limits::n_allowed(durable, live, platform, job);
        Some(ready.take_first(n_most.saturating_sub(n_held).min(n_allowed)))
    }
}
