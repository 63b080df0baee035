//! Whether a pilot and the manager agree. What a pilot says of itself is compared with what it was leased; where they
//! differ it is asked what it holds, so that nobody waits for ever for what the other does not know of.

use crate::{
    engine::{
        handlers::pilots::told_of,
        interface::{
            RequestId,
            notice::{Doubt, Notice},
            refusal::Refusal,
        },
        live::pilots::agreement::GoesOn,
        state::pilot::Pilot,
        turn::Turn,
    },
    ids::{JobId, PilotId},
    pull::{Held, Pull, Tally},
    ranges::TaskSet,
    results::JobReport,
};

/// So many pilots that were given up are remembered with what they held at most. Of others that come back nothing is
/// taken: their tasks run again.
const N_FORMER_MAX: usize = 10_000;

impl Turn<'_> {
    /// Compares what a pull says with what is known here. A pilot that does not agree is out of step: it must say what it
    /// holds before anything else is taken from it. O(jobs that it holds, ranges that run).
    pub(in crate::engine) fn compare(&mut self, id: PilotId, pull: &Pull) {
        if !self.agrees(id, pull) {
            self.doubt(id, Doubt::Step);
            self.lose_step(id);
        }
    }

    fn agrees(&mut self, id: PilotId, pull: &Pull) -> bool {
        let acknowledged = self.durable.pilots().get(&id).map(|pilot| pilot.acknowledged);
        let Some(state) = self.live.pilots.get_mut(&id).filter(|state| state.is_synced) else {
            return true;
        };
        if pull.epoch != self.live.epoch {
            return true;
        }
        let (seen, confirmed) = (pull.part_seen, state.confirmed);
        state.confirmed = confirmed.max(seen.min(state.n_parts));
        // Pilots of before do not say what they believe.
        let Some(tally) = pull.tally else { return true };
        // One that was overtaken on its way says how things were.
        let is_newest = tally.number > state.last_pull;
        state.last_pull = state.last_pull.max(tally.number);
        if seen > state.n_parts || is_newest && seen < confirmed {
            return false;
        }
        // What one side does not know of yet, neither counts.
        if Some(tally.acknowledged) != acknowledged || seen != state.n_parts {
            return true;
        }
        if tally.n_held < state.n_leased() {
            return false;
        }
        let is_known = |(job, running): &(JobId, TaskSet)| {
            let mut unknown = running.clone();
            for known in [&state.leases, &state.revoked, &state.disowned] {
                known.get(job).into_iter().for_each(|known| unknown.remove_all(known));
            }
            unknown.is_empty()
        };
        pull.running.iter().all(is_known)
    }

    /// A pilot has been answered by a later life of the manager than this one, as by the original of a folder of which this
    /// is a copy: it is not commanded here, nor given up.
    pub(in crate::engine) fn leave_to_other_life(&mut self, request: RequestId, id: PilotId, epoch: u64) {
        if let Some(state) = self.live.pilots.get_mut(&id) {
            state.last_heard = self.now;
        }
        self.doubt(id, Doubt::OtherLife { epoch });
        self.refuse(request, Refusal::OtherLife(id));
    }

    /// The pilot must say what it holds. Until then it keeps what it was leased.
    pub(in crate::engine) fn lose_step(&mut self, id: PilotId) {
        self.supersede(id);
        let Some(state) = self.live.pilots.get_mut(&id).filter(|state| state.is_synced) else { return };
        state.is_synced = false;
        state.asked = None;
        self.live.n_unsynced += 1;
        self.live.set_idle(self.durable, id, None);
    }

    /// Tells those who watch, once for each pilot.
    pub(in crate::engine) fn doubt(&mut self, pilot: PilotId, what: Doubt) {
        let Some(state) = self.live.pilots.get_mut(&pilot) else { return };
        if !std::mem::replace(&mut state.is_doubt_told, true) {
            self.notify(Notice::PilotDoubted { pilot, what });
        }
    }

    /// Those of these tasks that the pilot is known to hold, or to have held: its leases, what was taken from it and it has
    /// not answered for, and what it held when it was given up. Of a pilot of before that has not said what it holds: all
    /// of jobs that are of before, too. O(ranges).
    pub(in crate::engine) fn leased_ever(&self, id: PilotId, job: JobId, tasks: &TaskSet) -> TaskSet {
        let Some(submitted_at) = self.durable.jobs().get(&job).map(|job| job.submitted_at) else {
            return TaskSet::new();
        };
        if submitted_at <= self.live.started_at && self.is_trusted(id) {
            return tasks.clone();
        }
        let state = self.live.pilots.get(&id);
        let of_state = state.into_iter().flat_map(|state| [state.leases.get(&job), state.revoked.get(&job)]);
        let mut others = tasks.clone();
        let former = self.live.former.get(&id).and_then(|former| former.get(&job));
        for known in of_state.flatten().chain(former) {
            others.remove_all(known);
        }
        let mut known = tasks.clone();
        known.remove_all(&others);
        known
    }

    /// Takes out of a report what is about tasks that the pilot was not leased.
    pub(in crate::engine) fn strip(&mut self, id: PilotId, part: &mut JobReport) {
        let told = part.tasks();
        let known = self.leased_ever(id, part.job, &told);
        let n_before = part.n_results();
        part.keep_only(&known);
        self.refuse_results(id, part.job, n_before - part.n_results());
    }

    fn refuse_results(&mut self, id: PilotId, job: JobId, n_tasks: u64) {
        if n_tasks > 0 {
            self.live.n_refused = self.live.n_refused.saturating_add(n_tasks);
            self.doubt(id, Doubt::NotLeased { job, n_tasks });
        }
    }

    /// Of what a pilot says to hold, this is what it was leased: no result of the rest is taken.
    pub(in crate::engine) fn disown(&mut self, id: PilotId, held: &Held, leased: &TaskSet) {
        let mut others = told_of(held);
        others.remove_all(leased);
        let is_known = self.durable.jobs().contains_key(&held.job);
        let Some(state) = self.live.pilots.get_mut(&id).filter(|_| !others.is_empty()) else { return };
        state.disowned.entry(held.job).or_default().insert_all(&others);
        // A store that was put back from a backup has forgotten jobs.
        if is_known {
            self.refuse_results(id, held.job, others.len());
        }
    }

    /// A pilot is given up: should it come back, results of what it holds now are taken if nobody else's have come.
    pub(in crate::engine) fn keep_former(&mut self, id: PilotId) {
        let Some(state) = self.live.pilots.get(&id) else { return };
        let former = self.live.former.entry(id).or_default();
        for (job, tasks) in state.leases.iter().chain(&state.revoked) {
            former.entry(*job).or_default().insert_all(tasks);
        }
        if former.is_empty() {
            self.live.former.remove(&id);
        }
        // Those that came first are the least likely to come back.
        while self.live.former.len() > N_FORMER_MAX {
            self.live.former.pop_first();
        }
    }

    /// Whether the pilot is taken at its word about what it holds: it may have been leased that by an earlier life of the
    /// manager, whose leases nobody knows, and has not been asked in this one.
    pub(in crate::engine) fn is_trusted(&self, id: PilotId) -> bool {
        let is_of_before = self.durable.pilots().get(&id).is_some_and(|pilot| self.is_of_before(pilot));
        is_of_before && !self.live.told.contains_key(&id)
    }

    fn is_of_before(&self, pilot: &Pilot) -> bool {
        let started_at = self.live.started_at;
        let allocation = || self.durable.allocations().get(&pilot.allocation);
        let is_process_of_before =
            || pilot.born_at <= started_at && allocation().is_some_and(|held| held.intended_at < started_at);
        pilot.registered_at <= started_at || is_process_of_before()
    }

    /// A pilot of before says what it holds. From now on it is held to that.
    pub(in crate::engine) fn note_told(&mut self, id: PilotId, tally: Option<Tally>) {
        if !self.is_trusted(id) {
            return;
        }
        let acknowledged = self.durable.pilots().get(&id).map_or(0, |pilot| pilot.acknowledged);
        let goes_on = match tally {
            Some(tally) if tally.acknowledged > acknowledged => GoesOn::With(tally.acknowledged + 1),
            Some(_) => GoesOn::AsExpected,
            None => GoesOn::WithAny,
        };
        self.live.told.insert(id, goes_on);
    }

    /// Whether a report of that number is the next one. One that comes after a gap is taken once from a pilot of before:
    /// the records of the reports between were lost although they had been acknowledged.
    pub(in crate::engine) fn is_next_report(&mut self, id: PilotId, seq: u64, acknowledged: u64) -> bool {
        let expected = acknowledged.saturating_add(1);
        if seq == expected {
            return true;
        }
        let may_skip = match self.live.told.get_mut(&id) {
            Some(goes_on) if matches!(goes_on, GoesOn::WithAny) || *goes_on == GoesOn::With(seq) => {
                *goes_on = GoesOn::AsExpected;
                true
            }
            Some(_) => false,
            None => self.is_trusted(id),
        };
        if may_skip {
            self.notify(Notice::ReportsForgotten { pilot: id, n: seq - expected });
        } else {
            self.doubt(id, Doubt::Number { found: seq, expected });
        }
        may_skip
    }
}
