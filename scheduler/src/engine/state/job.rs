//! A job and its tasks, as the records tell them.

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

/// Longer tasks are not sent to slots that are at work for the sake of their files.
const STAGED_AHEAD_MAX: Span = Span(60_000_000);

/// So many times as many failures as tasks are sent ahead may wait at a pilot until they are believed, at most.
const N_HELD_BACK_MAX: u64 = 4;

/// A job's durable state.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// As it was submitted.
    pub request: JobRequest,
    /// When.
    pub submitted_at: Time,
    /// Tasks that have neither succeeded nor failed for good nor been cancelled.
    pub open: TaskSet,
    /// Tasks that failed for good.
    pub failed: TaskSet,
    /// Tasks that were cancelled.
    pub cancelled: TaskSet,
    /// Those of them that were because others failed which they waited for.
    pub forsaken: TaskSet,
    /// Tasks that have failed attempts behind them: the exception that may cost memory.
    pub troubled: BTreeMap<u64, Trouble>,
    /// Open tasks by the places where they have failed.
    pub failed_at: FailedAt,
    /// Whether nothing more may begin.
    pub is_paused: bool,
    /// Why tasks were cancelled, if any were.
    pub cancel_cause: Option<CancelCause>,
    /// When the first attempt ended.
    pub first_result_at: Option<Time>,
    /// When the last open task was closed.
    pub ended_at: Option<Time>,
    /// Sums over the accepted successes.
    pub totals: Totals,
    /// Estimates of the tasks that succeeded, together, in millionths; 0 without estimates.
    pub work_done: u64,
    /// Tasks that were opened again at least once.
    pub reopened: TaskSet,
    /// How many had failed when tasks were last opened again; the job's limit counts from there.
    pub n_failed_before: u64,
    /// Failed attempts, retried ones included.
    pub n_failed_attempts: u64,
    /// What failed attempts say of how long attempts take.
    pub(in crate::engine) failing: Failing,
    /// Bytes of files that have moved for its tasks, as far as that is written down.
    pub moved: MovedBytes,
}

/// The failed attempts of one task.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trouble {
    /// The program's own failures.
    pub n_program: u32,
    /// The nodes' failures.
    pub n_node: u32,
    /// Failures of transfers.
    pub n_transfer: u32,
    /// Pilots that vanished with it.
    pub lost_with: Vec<PilotId>,
    /// Pilots whose batch jobs the batch system ended while it ran.
    pub ended_with: Vec<PilotId>,
    /// Where it failed, the last one last; nothing once it is open no more.
    pub places: Vec<Place>,
    /// Ends of walltimes of which the task had at least half.
    pub n_walltime: u32,
    /// Failures that were nobody's fault.
    pub n_nobody: u32,
    /// Not to be tried again before this time.
    pub retry_at: Time,
    /// Whether pilots were lost with it as often as `crash_limit` says, each time with others: it is to run alone next.
    pub is_to_be_alone: bool,
    /// The last failure.
    pub last: Option<FailureKind>,
}

impl Trouble {
    /// How many pilots vanished with it, or ended with it.
    pub fn n_crash(&self) -> u32 {
        u32::try_from(self.lost_with.len() + self.ended_with.len()).unwrap_or(u32::MAX)
    }

    /// Failed attempts so far.
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

    /// Those of the tasks that have failed before: index, and the number of the attempt that comes next.
    pub(in crate::engine) fn tried(&self, tasks: &TaskSet) -> Vec<(u64, u32)> {
        let troubled = tasks.iter().flat_map(|range| self.troubled.range(range));
        troubled.map(|(index, trouble)| (*index, trouble.n_attempts() + 1)).collect()
    }

    /// What of the estimates is done in a second of a task; `None` while nobody knows.
    pub fn rate(&self) -> Option<f64> {
        let is_known = self.work_done > 0 && self.totals.wall_us > 0;
        is_known.then_some(self.work_done as f64 / self.totals.wall_us as f64)
    }

    pub(in crate::engine) fn note_work(&mut self, done: &TaskSet) {
        let Some(estimates) = &self.request.estimates else { return };
        let work = done.indices().map(|index| estimates.millionths(index));
        self.work_done = work.fold(self.work_done, u64::saturating_add);
    }

    /// Tasks that succeeded.
    pub fn n_done(&self) -> u64 {
        self.request.n_tasks - self.open.len() - self.failed.len() - self.cancelled.len()
    }

    /// Cancels those of these tasks that are open.
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

    /// Tasks that failed for good or were cancelled: what waits for them waits in vain.
    pub fn lost(&self) -> TaskSet {
        let mut lost = self.failed.clone();
        lost.insert_all(&self.cancelled);
        lost
    }

    /// One word for people.
    pub fn state(&self) -> &'static str {
        match (self.ended_at.is_some(), self.is_paused) {
            (false, true) => "paused",
            (false, false) => "active",
            // What waited for a failure was not meant to be cancelled.
            (true, _) if self.cancelled.len() > self.forsaken.len() => "cancelled",
            (true, _) if !self.failed.is_empty() => "failed",
            (true, _) if !self.cancelled.is_empty() => "cancelled",
            (true, _) => "done",
        }
    }

    pub(in crate::engine) fn note_end(&mut self, at: Time) {
        if self.open.is_empty() && self.ended_at.is_none() {
            self.ended_at = Some(at);
            // What is opened again later is meant to run.
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
        // Whoever opens them again has mended something.
        self.failing = Failing::default();
        self.reopened.insert_all(&closed);
        if !self.open.is_empty() {
            self.ended_at = None;
        }
        if self.cancelled.is_empty() {
            self.cancel_cause = None;
        }
    }

    /// How long an attempt takes on average, as far as that is known: successes, or failures where most fail.
    pub(in crate::engine) fn attempt_mean(&self) -> Option<Span> {
        self.failing.wall_mean(&self.totals).or_else(|| self.totals.wall_mean())
    }

    /// How many of its tasks a slot should have, the running one included.
    pub(in crate::engine) fn depth(&self, settings: &Settings) -> u64 {
        let depth = settings.depth(self.attempt_mean());
        // Pilots hold failures back, and so leases last longer than the tasks.
        let n_held_back =
            self.failing.wall_mean(&self.totals).map_or(0, |mean| FAILURES_HELD_BACK.0 / mean.0.max(1));
        let n_held_back = n_held_back.min(settings.prefetch_tasks_max.saturating_mul(N_HELD_BACK_MAX));
        depth.saturating_add(n_held_back).max(self.depth_least())
    }

    /// How many of them at least. While one runs, the files of the next can be brought; but who waits behind a long one
    /// could begin elsewhere, and long tasks hide that their files take a while.
    pub(in crate::engine) fn depth_least(&self) -> u64 {
        let mean = self.totals.wall_mean();
        let hides_transfers =
            self.request.needs.staging.inputs && mean.is_some_and(|mean| mean <= STAGED_AHEAD_MAX);
        if hides_transfers { 2 } else { 1 }
    }

    /// These tasks are done: gives where they failed before, and the pilots that ended with them.
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

    /// Where these tasks failed decides nothing any more.
    fn forget_places(&mut self, tasks: &TaskSet) {
        for range in tasks.iter() {
            for (index, trouble) in self.troubled.range_mut(range) {
                self.failed_at.forget(*index, &mut trouble.places);
            }
        }
    }

    /// `counts`: whether an end by walltime had most of its pilot's life, and whether a batch job was ended that its
    /// batch system had no other reason to end.
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

    /// It is known why the batch job ended with the task: it waits no longer for that.
    pub(in crate::engine) fn end_wait_for_cause(&mut self, index: u64, at: Time) {
        if let Some(trouble) = self.troubled.get_mut(&index) {
            trouble.retry_at = at;
        }
    }

    /// Of these tasks, those that count as ones that the pilot was lost with and may still run.
    pub(in crate::engine) fn blamed_for(&self, pilot: PilotId, tasks: &TaskSet) -> TaskSet {
        let troubled = tasks.iter().flat_map(|range| self.troubled.range(range));
        troubled
            .filter(|(index, trouble)| trouble.lost_with.contains(&pilot) && self.open.contains(**index))
            .map(|(index, _)| *index)
            .collect()
    }

    /// Those of these tasks that may still run and that a pilot was lost with.
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

    /// The pilot was not lost with these tasks; those attempts failed by nobody's fault.
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
