//! Agreement of a pilot and the manager. The state that a pilot reports is compared with its leases. Where
//! they differ, the pilot is asked what it holds, so that neither side waits for ever for tasks of which the
//! other does not know.

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

/// The most lost pilots whose tasks are remembered. Nothing is taken from other lost pilots that come back:
/// their tasks run again.
const N_FORMER_MAX: usize = 10_000;

impl Turn<'_> {
    /// Compares a pull with the leases. A pilot that does not agree is out of step: it must say what it holds
    /// before anything else is taken from it. O(jobs that it holds, ranges that run).
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
        // Older pilots send no tally.
        let Some(tally) = pull.tally else { return true };
        // A pull that a later one has overtaken describes an earlier state.
        let is_newest = tally.number > state.last_pull;
        state.last_pull = state.last_pull.max(tally.number);
        if seen > state.n_parts || is_newest && seen < confirmed {
            return false;
        }
        // While reports or parts are on their way, the two sides cannot be compared.
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

    /// Refuses a pilot that a later run of the manager has answered, as where this manager runs on a copy of
    /// another manager's folder: the pilot gets no commands here and does not count as lost.
    pub(in crate::engine) fn leave_to_other_life(&mut self, request: RequestId, id: PilotId, epoch: u64) {
        if let Some(state) = self.live.pilots.get_mut(&id) {
            state.last_heard = self.now;
        }
        self.doubt(id, Doubt::OtherLife { epoch });
        self.refuse(request, Refusal::OtherLife(id));
    }

    /// Marks the pilot as out of step: it must say what it holds. Until then it keeps its leases.
    pub(in crate::engine) fn lose_step(&mut self, id: PilotId) {
        self.supersede(id);
        let Some(state) = self.live.pilots.get_mut(&id).filter(|state| state.is_synced) else { return };
        state.is_synced = false;
        state.asked = None;
        self.live.n_unsynced += 1;
        self.live.set_idle(self.durable, id, None);
    }

    /// Notifies watchers of a disagreement, once for each pilot.
    pub(in crate::engine) fn doubt(&mut self, pilot: PilotId, what: Doubt) {
        let Some(state) = self.live.pilots.get_mut(&pilot) else { return };
        if !std::mem::replace(&mut state.is_doubt_told, true) {
            self.notify(Notice::PilotDoubted { pilot, what });
        }
    }

    /// Returns those of these tasks that the pilot is known to hold or to have held: its leases, revoked
    /// tasks that it has not answered for, and the tasks that it held when it was lost. For a pilot from
    /// before the manager's start that has not said what it holds, it returns all tasks of jobs from before
    /// the start. O(ranges).
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

    /// Removes from a report all that is about tasks that the pilot was not leased.
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

    /// Notes the tasks that a pilot says it holds and that it was not leased: no results of these are taken.
    pub(in crate::engine) fn disown(&mut self, id: PilotId, held: &Held, leased: &TaskSet) {
        let mut others = told_of(held);
        others.remove_all(leased);
        let is_known = self.durable.jobs().contains_key(&held.job);
        let Some(state) = self.live.pilots.get_mut(&id).filter(|_| !others.is_empty()) else { return };
        state.disowned.entry(held.job).or_default().insert_all(&others);
        // A store that was restored from a backup lacks jobs.
        if is_known {
            self.refuse_results(id, held.job, others.len());
        }
    }

    /// Remembers the tasks that a lost pilot holds: if it comes back, their results are taken unless another
    /// pilot's have come.
    pub(in crate::engine) fn keep_former(&mut self, id: PilotId) {
        let Some(state) = self.live.pilots.get(&id) else { return };
        let former = self.live.former.entry(id).or_default();
        for (job, tasks) in state.leases.iter().chain(&state.revoked) {
            former.entry(*job).or_default().insert_all(tasks);
        }
        if former.is_empty() {
            self.live.former.remove(&id);
        }
        // The oldest pilots are the least likely to come back.
        while self.live.former.len() > N_FORMER_MAX {
            self.live.former.pop_first();
        }
    }

    /// Returns whether the pilot's word is taken for what it holds: an earlier run of the manager, whose
    /// leases are unknown, may have leased it tasks, and this run has not asked it yet.
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

    /// Notes that a pilot from before the manager's start has said what it holds. From now on only that
    /// counts.
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

    /// Returns whether a report with this number is the next one. A report after a gap is taken once from a
    /// pilot from before the manager's start: the records of the reports between were lost although they had
    /// been acknowledged.
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
