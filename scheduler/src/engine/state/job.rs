//! A job and its tasks, as they follow from the records.

use std::collections::BTreeMap;

use crate::{
    engine::{
        interface::{job_request::JobRequest, settings::Settings},
        record::{CancelCause, Totals, Verdict},
        state::{
            failing::Failing,
            places::{FailedAt, Place},
        },
    },
    ids::PilotId,
    pull::MovedBytes,
    ranges::TaskSet,
    results::{Blame, FAILURES_HELD_BACK, FailureKind},
    time::{Span, Time},
};

/// The longest runtime of tasks that are prefetched to busy slots so that their files are staged early.
const STAGED_AHEAD_MAX: Span = Span(60_000_000);

/// Failures may wait at a pilot before they are reported: at most this many times the number of prefetched
/// tasks.
const N_HELD_BACK_MAX: u64 = 4;

/// A job's durable state.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// The job as it was submitted.
    pub request: JobRequest,
    /// The time of the submission.
    pub submitted_at: Time,
    /// Tasks that have neither succeeded nor failed for good nor been cancelled.
    pub open: TaskSet,
    /// Tasks that failed for good.
    pub failed: TaskSet,
    /// Tasks that were cancelled.
    pub cancelled: TaskSet,
    /// Cancelled tasks whose dependencies failed.
    pub forsaken: TaskSet,
    /// Tasks with failed attempts: exceptions, which may use memory.
    pub troubled: BTreeMap<u64, Trouble>,
    /// Open tasks by the places where they have failed.
    pub failed_at: FailedAt,
    /// Whether no more tasks may start.
    pub is_paused: bool,
    /// The reason why tasks were last cancelled, if any were.
    pub cancel_cause: Option<CancelCause>,
    /// The time at which the first attempt ended.
    pub first_result_at: Option<Time>,
    /// The time at which the last open task ended.
    pub ended_at: Option<Time>,
    /// The sums over the accepted successes.
    pub totals: Totals,
    /// The sum of the estimates of done tasks, in millionths; 0 without estimates.
    pub work_done: u64,
    /// Tasks that were reopened at least once.
    pub reopened: TaskSet,
    /// Number of failed tasks when tasks were last reopened; the job's limit counts from there.
    pub n_failed_before: u64,
    /// Number of failed attempts, retried ones included.
    pub n_failed_attempts: u64,
    /// The runtimes of failed attempts.
    pub(in crate::engine) failing: Failing,
    /// Bytes of files that have moved for its tasks, as far as that is recorded.
    pub moved: MovedBytes,
}

/// The failed attempts of one task.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trouble {
    /// Number of failures of the program.
    pub n_program: u32,
    /// Number of failures of the node.
    pub n_node: u32,
    /// Number of failures of transfers.
    pub n_transfer: u32,
    /// Pilots that were lost while it ran.
    pub lost_with: Vec<PilotId>,
    /// Pilots whose batch jobs were ended by the batch system while it ran.
    pub ended_with: Vec<PilotId>,
    /// The places where it failed, the latest last; empty once the task has ended.
    pub places: Vec<Place>,
    /// Number of ends by walltime of which the task had at least half.
    pub n_walltime: u32,
    /// Number of failures that count for nothing.
    pub n_nobody: u32,
    /// The time before which it is not retried.
    pub retry_at: Time,
    /// Whether as many pilots as `crash_limit` says were lost with it, each time with other tasks: it must
    /// run alone next.
    pub is_to_be_alone: bool,
    /// The kind of the last failure.
    pub last: Option<FailureKind>,
}

impl Trouble {
    /// Returns the number of pilots that were lost, or ended, while it ran.
    pub fn n_crash(&self) -> u32 {
        u32::try_from(self.lost_with.len() + self.ended_with.len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of failed attempts so far.
    pub fn n_attempts(&self) -> u32 {
        let n_outside = self.n_node + self.n_transfer + self.n_crash() + self.n_walltime + self.n_nobody;
        self.n_program + n_outside
    }
}

impl Job {
    pub(in crate::engine) fn new(request: JobRequest, at: Time) -> Job {
        Job {
            open: TaskSet::from(0..request.n_tasks),
            request,
            submitted_at: at,
            failed: TaskSet::new(),
            cancelled: TaskSet::new(),
            forsaken: TaskSet::new(),
            troubled: BTreeMap::new(),
            failed_at: FailedAt::default(),
            is_paused: false,
            cancel_cause: None,
            first_result_at: None,
            ended_at: None,
            totals: Totals::default(),
            work_done: 0,
            reopened: TaskSet::new(),
            n_failed_before: 0,
            n_failed_attempts: 0,
            failing: Failing::default(),
            moved: MovedBytes::default(),
        }
    }

    /// Returns which of the tasks have failed before: index, and the number of the next attempt.
    pub(in crate::engine) fn tried(&self, tasks: &TaskSet) -> Vec<(u64, u32)> {
        let troubled = tasks.iter().flat_map(|range| self.troubled.range(range));
        troubled.map(|(index, trouble)| (*index, trouble.n_attempts() + 1)).collect()
    }

    /// Returns the part of the estimates, in units, that is done per second of a task; `None` while it is
    /// unknown.
    pub fn rate(&self) -> Option<f64> {
        let is_known = self.work_done > 0 && self.totals.wall_us > 0;
        is_known.then_some(self.work_done as f64 / self.totals.wall_us as f64)
    }

    pub(in crate::engine) fn note_work(&mut self, done: &TaskSet) {
        let Some(estimates) = &self.request.estimates else { return };
        let work = done.indices().map(|index| estimates.millionths(index));
        self.work_done = work.fold(self.work_done, u64::saturating_add);
    }

    /// Returns the number of done tasks.
    pub fn n_done(&self) -> u64 {
        self.request.n_tasks - self.open.len() - self.failed.len() - self.cancelled.len()
    }

    /// Cancels the open ones among these tasks.
    pub(in crate::engine) fn cancel(&mut self, tasks: &TaskSet, cause: &CancelCause, at: Time) {
        let tasks = tasks.intersection(&self.open);
        self.forget_places(&tasks);
        self.open.remove_all(&tasks);
        self.cancelled.insert_all(&tasks);
        if matches!(cause, CancelCause::Dependency(_)) {
            self.forsaken.insert_all(&tasks);
        }
        self.cancel_cause = Some(cause.clone());
        self.note_end(at);
    }

    /// Returns the tasks that failed for good or were cancelled: tasks that depend on them wait in vain.
    pub fn lost(&self) -> TaskSet {
        let mut lost = self.failed.clone();
        lost.insert_all(&self.cancelled);
        lost
    }

    /// Returns the state as a word for people.
    pub fn state(&self) -> &'static str {
        match (self.ended_at.is_some(), self.is_paused) {
            (false, true) => "paused",
            (false, false) => "active",
            // Tasks whose dependencies failed were not cancelled by anybody.
            (true, _) if self.cancelled.len() > self.forsaken.len() => "cancelled",
            (true, _) if !self.failed.is_empty() => "failed",
            (true, _) if !self.cancelled.is_empty() => "cancelled",
            (true, _) => "done",
        }
    }

    pub(in crate::engine) fn note_end(&mut self, at: Time) {
        if self.open.is_empty() && self.ended_at.is_none() {
            self.ended_at = Some(at);
            // Tasks that are reopened later are meant to run.
            self.is_paused = false;
        }
    }

    pub(in crate::engine) fn reopen(&mut self, tasks: &TaskSet) {
        let mut closed = self.failed.intersection(tasks);
        closed.insert_all(&self.cancelled.intersection(tasks));
        self.failed.remove_all(&closed);
        self.cancelled.remove_all(&closed);
        self.forsaken.remove_all(&closed);
        self.open.insert_all(&closed);
        self.forget_places(&closed);
        self.troubled.retain(|index, _| !closed.contains(*index));
        self.n_failed_before = self.failed.len();
        // The tasks are reopened because something was fixed.
        self.failing = Failing::default();
        self.reopened.insert_all(&closed);
        if !self.open.is_empty() {
            self.ended_at = None;
        }
        if self.cancelled.is_empty() {
            self.cancel_cause = None;
        }
    }

    /// Returns the mean runtime of attempts, as far as it is known: of successes, or of failures if most
    /// attempts fail.
    pub(in crate::engine) fn attempt_mean(&self) -> Option<Span> {
        self.failing.wall_mean(&self.totals).or_else(|| self.totals.wall_mean())
    }

    /// Returns the number of its tasks that a slot should have, the running one included.
    pub(in crate::engine) fn depth(&self, settings: &Settings) -> u64 {
        let depth = settings.depth(self.attempt_mean());
        // Pilots hold failures back, so leases last longer than the tasks.
        let n_held_back =
            self.failing.wall_mean(&self.totals).map_or(0, |mean| FAILURES_HELD_BACK.0 / mean.0.max(1));
        let n_held_back = n_held_back.min(settings.prefetch_tasks_max.saturating_mul(N_HELD_BACK_MAX));
        depth.saturating_add(n_held_back).max(self.depth_least())
    }

    /// Returns the least number of its tasks that a slot should have. While one runs, the files of the next
    /// can be staged. But a task behind a long one could start elsewhere, and long tasks hide the time for
    /// staging.
    pub(in crate::engine) fn depth_least(&self) -> u64 {
        let mean = self.totals.wall_mean();
        let hides_transfers =
            self.request.needs.staging.inputs && mean.is_some_and(|mean| mean <= STAGED_AHEAD_MAX);
        if hides_transfers { 2 } else { 1 }
    }

    /// Marks these tasks as done. Returns the places where they failed before, and the pilots that ended with
    /// them.
    pub(in crate::engine) fn note_done(&mut self, tasks: &TaskSet) -> (Vec<Place>, Vec<PilotId>) {
        let (mut places, mut ended_with) = (Vec::new(), Vec::new());
        let done = tasks.intersection(&self.open);
        for (_, trouble) in done.iter().flat_map(|range| self.troubled.range(range)) {
            places.extend(&trouble.places);
            ended_with.extend(&trouble.ended_with);
        }
        self.forget_places(&done);
        self.open.remove_all(tasks);
        (places, ended_with)
    }

    /// Forgets where these tasks failed, as that decides nothing any more.
    fn forget_places(&mut self, tasks: &TaskSet) {
        for range in tasks.iter() {
            for (index, trouble) in self.troubled.range_mut(range) {
                self.failed_at.forget(*index, &mut trouble.places);
            }
        }
    }

    /// Notes a failed attempt. `counts`: whether an attempt that the walltime ended had most of its pilot's
    /// life, or whether a batch job was ended that its batch system had no other reason to end.
    pub(in crate::engine) fn note_failure(
        &mut self,
        place: Place,
        index: u64,
        kind: &FailureKind,
        verdict: Verdict,
        counts: bool,
    ) {
        self.n_failed_attempts += 1;
        let trouble = self.troubled.entry(index).or_default();
        match kind.blame() {
            Blame::Program => trouble.n_program += 1,
            Blame::Node => trouble.n_node += 1,
            Blame::Transfer => trouble.n_transfer += 1,
            Blame::Crash => trouble.lost_with.push(place.pilot),
            Blame::Ended if counts => trouble.ended_with.push(place.pilot),
            Blame::Walltime if counts => trouble.n_walltime += 1,
            Blame::Walltime | Blame::Ended | Blame::Nobody => trouble.n_nobody += 1,
        }
        let says_nothing = matches!(kind.blame(), Blame::Walltime | Blame::Ended) && !counts;
        if !says_nothing && kind.blame() != Blame::Nobody && self.open.contains(index) {
            self.failed_at.note(index, place, &mut trouble.places);
        }
        trouble.last = Some(kind.clone());
        match verdict {
            Verdict::Retry { at } => trouble.retry_at = at,
            Verdict::Final => {
                self.failed_at.forget(index, &mut trouble.places);
                if self.open.remove(index) {
                    self.failed.insert(index);
                }
            }
        }
    }

    /// Ends the wait of a task for the cause of a batch job's end, which is known now.
    pub(in crate::engine) fn end_wait_for_cause(&mut self, index: u64, at: Time) {
        if let Some(trouble) = self.troubled.get_mut(&index) {
            trouble.retry_at = at;
        }
    }

    /// Returns which of these tasks are open and count as running on the pilot when it was lost.
    pub(in crate::engine) fn blamed_for(&self, pilot: PilotId, tasks: &TaskSet) -> TaskSet {
        let troubled = tasks.iter().flat_map(|range| self.troubled.range(range));
        troubled
            .filter(|(index, trouble)| trouble.lost_with.contains(&pilot) && self.open.contains(**index))
            .map(|(index, _)| *index)
            .collect()
    }

    /// Returns which of these tasks are open and ran when a pilot was lost or its batch job was ended.
    pub(in crate::engine) fn blamed(&self, tasks: &TaskSet) -> TaskSet {
        let troubled = tasks.iter().flat_map(|range| self.troubled.range(range));
        let is_blamed = |index: u64, trouble: &Trouble| trouble.n_crash() > 0 && self.open.contains(index);
        troubled.filter(|(index, trouble)| is_blamed(**index, trouble)).map(|(index, _)| *index).collect()
    }

    pub(in crate::engine) fn set_to_be_alone(&mut self, index: u64) {
        if let Some(trouble) = self.troubled.get_mut(&index) {
            trouble.is_to_be_alone = true;
        }
    }

    /// Takes back the blame of these tasks for the loss of the pilot; their attempts then count for nothing.
    pub(in crate::engine) fn take_back_blame(&mut self, pilot: PilotId, tasks: &TaskSet) {
        for index in self.blamed_for(pilot, tasks).indices() {
            let Some(trouble) = self.troubled.get_mut(&index) else { continue };
            let n_before = trouble.n_crash();
            trouble.lost_with.retain(|other| *other != pilot);
            trouble.is_to_be_alone = false;
            trouble.n_nobody += n_before - trouble.n_crash();
        }
    }
}
