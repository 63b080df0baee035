//! Black holes: pilots that fail task after task that others can run. A suspected black hole gets one task at
//! a time, after a growing pause; a proved one drains.

use std::collections::BTreeSet;

use crate::{
    engine::{
        dispatch::elsewhere::Elsewhere,
        live::pilots::{doubts::RowBegan, pilot_state::PilotState},
        record::{DrainCause, FailedAttempt, JobResult},
        state::{failing::is_of_place, pilot::Pilot},
        turn::Turn,
    },
    ids::{JobId, PilotId},
    resources::Resources,
    time::{Span, Time},
};

/// The first pause of a suspected black hole; it doubles with each failure.
const PAUSE: Span = Span::from_secs(1);

/// The longest pause.
const PAUSE_MAX: Span = Span::from_secs(10);

/// Number of other pilots of a platform that are looked at.
const N_MATES: usize = 64;

/// Number of tasks that failed at a pilot and succeeded elsewhere, from which on the pilot is to blame.
const N_PROOFS: u32 = 3;

impl PilotState {
    /// Returns whether the pilot gets nothing now although it pulls.
    pub(in crate::engine) fn is_held_back(&self, now: Time) -> bool {
        self.is_doubted && (!self.leases.is_empty() || self.paused_until.is_some_and(|until| until > now))
    }
}

impl Turn<'_> {
    /// Returns the other pilots at which tasks failed that are done now.
    pub(in crate::engine) fn outdone(&self, results: &[JobResult], by: PilotId) -> BTreeSet<PilotId> {
        let mut outdone = BTreeSet::new();
        for result in results {
            let Some(job) = self.durable.jobs().get(&result.job) else { continue };
            let done = result.successes.tasks.iter().flat_map(|range| job.troubled.range(range));
            let places = done.flat_map(|(_, trouble)| &trouble.places);
            outdone.extend(places.map(|place| place.pilot).filter(|pilot| *pilot != by));
        }
        outdone
    }

    /// Decides after a report whether the pilot is a suspected black hole.
    pub(in crate::engine) fn judge_pilot(
        &mut self,
        id: PilotId,
        n_done: u64,
        failed: &[(JobId, Vec<FailedAttempt>)],
    ) {
        let elsewhere =
            Elsewhere { settings: self.settings, durable: self.durable, live: self.live, now: self.now };
        let all_failed = failed.iter().filter(|(_, failures)| failures.iter().any(is_of_place));
        let others: BTreeSet<JobId> =
            all_failed.map(|(job, _)| *job).filter(|job| elsewhere.is_any_other(id, *job)).collect();
        let (durable, live) = (&*self.durable, &mut *self.live);
        let Some(pilot) = durable.pilots().get(&id) else { return };
        let Some(state) = live.pilots.get_mut(&id) else { return };
        if n_done > 0 {
            (state.is_doubted, state.paused_until, state.n_pauses, state.row_began) = (false, None, 0, None);
        }
        let n_in_a_row = pilot.fortune.n_in_a_row;
        let mut is_any_failed = false;
        for (job_id, failures) in failed {
            let n_failed = failures.iter().filter(|failure| is_of_place(failure)).count() as u64;
            let Some(job) = durable.jobs().get(job_id).filter(|_| n_failed > 0) else { continue };
            is_any_failed = true;
            let began = state.row_began.filter(|began| began.job == *job_id);
            let (n_done, n_before) = (job.totals.n, job.n_failed_attempts.saturating_sub(n_failed));
            let mut began = began.unwrap_or(RowBegan { job: *job_id, n_done, n_failed: n_before, n_own: 0 });
            began.n_own += n_failed;
            state.row_began = Some(began);
            let others_failed = job.n_failed_attempts.saturating_sub(began.n_failed + began.n_own);
            let others_done = job.totals.n.saturating_sub(began.n_done);
            let is_in_a_row = state.is_doubted || n_in_a_row >= self.settings.black_hole_limit;
            state.is_doubted = is_in_a_row && others.contains(job_id) && others_failed <= others_done;
        }
        if state.is_doubted && is_any_failed {
            let pause = PAUSE.times(1 << state.n_pauses.min(10)).min(PAUSE_MAX);
            let until = self.now + pause;
            (state.n_pauses, state.paused_until) = (state.n_pauses + 1, Some(until));
            self.live.arm_pilot(id, until);
        }
        self.drain_if_proved(id);
    }

    /// Drains the pilot if it fails tasks that others have done.
    pub(in crate::engine) fn drain_if_proved(&mut self, id: PilotId) {
        let Some(pilot) = self.durable.pilots().get(&id) else { return };
        let n_failures = pilot.fortune.n_in_a_row;
        let is_proved = pilot.fortune.n_done_elsewhere >= N_PROOFS && self.is_mate_well(id, pilot);
        if n_failures >= self.settings.black_hole_limit && is_proved {
            self.drain_pilot(id, DrainCause::BlackHole { n_failures });
        }
    }

    /// Returns whether earlier pilots on the pilot's node failed tasks that others could run: a new pilot
    /// there is suspected from the start.
    pub(in crate::engine) fn is_node_doubted(&self, id: PilotId) -> bool {
        let fortune = self.durable.pilots().get(&id).map(|pilot| self.durable.fortune_of_node(pilot));
        fortune.is_some_and(|fortune| {
            fortune.n_in_a_row >= self.settings.black_hole_limit && fortune.n_done_elsewhere >= N_PROOFS
        })
    }

    /// Sets the pilot's timer to the end of its pause.
    pub(in crate::engine) fn arm_pause(&mut self, id: PilotId) {
        let until = self.live.pilots.get(&id).and_then(|state| state.paused_until);
        if let Some(until) = until {
            self.live.arm_pilot(id, until);
        }
    }

    /// Returns whether tasks succeed on another node of the pilot's platform. If not, the platform fails, and
    /// another pilot there would do no better.
    fn is_mate_well(&self, id: PilotId, pilot: &Pilot) -> bool {
        let first = (pilot.platform, Resources::default());
        let kinds = self.live.capacities.range(first..);
        let kinds = kinds.take_while(|((platform, _), _)| *platform == pilot.platform);
        let mates = kinds.flat_map(|(_, mates)| mates).filter(|mate| **mate != id).take(N_MATES);
        mates.filter_map(|mate| self.durable.pilots().get(mate)).any(|mate| {
            let is_well = mate.fortune.error_rate().is_some_and(|rate| rate < 0.5);
            mate.node_id != pilot.node_id && is_well
        })
    }

    /// Ends the pause of a pilot: it gets a task to show whether its node has recovered.
    pub(in crate::engine) fn end_pause(&mut self, id: PilotId) {
        let Some(state) = self.live.pilots.get_mut(&id) else { return };
        if state.paused_until.take_if(|until| *until <= self.now).is_some() {
            self.live.pilots_to_notify.insert(id);
        }
    }
}
