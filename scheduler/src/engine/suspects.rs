//! Tasks that may have taken a pilot down. Who holds many brief ones runs others than it last told when it is lost, so
//! those it held are sent with care: while one of them waits, nobody gets more of the job than it can run at a time, nor
//! does who has one.

use std::collections::BTreeSet;

use super::{
    Turn,
    durable::{Job, Trouble},
    ends::EndOfPilot,
    record::Blamed,
    volatile::Volatile,
};
use crate::{
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
};

/// Tasks of a job that a pilot is blamed for at most: more than any node runs at a time.
const N_SUSPECTS_MAX: u64 = 1 << 16;

impl Turn<'_> {
    /// The tasks that may be why a pilot vanished: those known to run; of a job of which it was sent some and has not
    /// confirmed them, where none is known to run, those it would have begun first, or all where none is sent ahead.
    pub(super) fn blame(&self, pilot: PilotId) -> Vec<Blamed> {
        let Some(state) = self.volatile.pilots.get(&pilot) else { return Vec::new() };
        if self.is_suspended(pilot) {
            // It stands still, whatever runs there.
            return Vec::new();
        }
        let sent: BTreeSet<JobId> =
            state.unconfirmed.iter().flat_map(|part| &part.bundles).map(|bundle| bundle.job).collect();
        let mut suspects: Vec<TaskId> = Vec::new();
        for (job, held) in &state.leases {
            let n_slots = self.n_slots(pilot, *job);
            let is_careful = self.volatile.suspects.contains_key(job) && held.len() <= n_slots;
            let running = state.running.get(job).filter(|running| !running.is_empty());
            let is_known = !sent.contains(job) || (running.is_some() && !is_careful);
            let tasks = if is_known { running } else { Some(held) };
            // No pilot runs more than it has slots, whatever it says.
            let n_most = n_slots.min(N_SUSPECTS_MAX) as usize;
            let indices = tasks.into_iter().flat_map(|tasks| tasks.indices()).take(n_most);
            suspects.extend(indices.map(|index| TaskId { job: *job, index }));
        }
        let end = EndOfPilot { is_signalled: false, is_alone: suspects.len() == 1 };
        let blamed = |task: TaskId| Blamed {
            task,
            attempt: self.trouble(task).map_or(0, Trouble::n_attempts) + 1,
            verdict: self.verdict_of_end(pilot, task, end),
        };
        suspects.into_iter().map(blamed).collect()
    }

    /// Whether the pilot's platform says that it stands still.
    pub(super) fn is_suspended(&self, pilot: PilotId) -> bool {
        let pilot = self.durable.pilots().get(&pilot);
        pilot.is_some_and(|pilot| self.volatile.suspended.contains_key(&pilot.allocation))
    }

    /// A pilot was lost: of the jobs whose tasks are blamed for that all that it holds is suspect, but what is set aside
    /// is none any more; and some may have their last chance now.
    pub(super) fn suspect_all_of(&mut self, id: PilotId, blamed: &[Blamed]) {
        let ran: BTreeSet<JobId> = blamed.iter().map(|blamed| blamed.task.job).collect();
        for job in ran {
            self.note_last_chances(job);
            let held = self.volatile.pilots.get(&id).and_then(|state| state.leases.get(&job));
            let open = self.durable.jobs().get(&job).map(|job| &job.open);
            let Some((held, open)) = held.zip(open) else { continue };
            let mut suspects = self.volatile.suspects.remove(&job).unwrap_or_default();
            suspects.insert_all(held);
            let suspects = suspects.intersection(open);
            if !suspects.is_empty() {
                self.volatile.suspects.insert(job, suspects);
            }
        }
    }

    /// The batch system ended a pilot's job while the task ran: it is sent with care, as after a lost pilot.
    pub(super) fn suspect_ended(&mut self, job: JobId, index: u64) {
        let one = TaskSet::from(index..index.saturating_add(1));
        let blamed = self.durable.jobs().get(&job).map(|job| job.blamed(&one)).unwrap_or_default();
        if !blamed.is_empty() {
            self.volatile.suspects.entry(job).or_default().insert_all(&blamed);
            self.note_last_chances(job);
        }
    }

    /// Tasks have ended once, or their pilot is there after all: those of them are suspect still that are blamed for
    /// another.
    pub(super) fn clear_unblamed(&mut self, id: JobId, tasks: &TaskSet) {
        let Some(job) = self.durable.jobs().get(&id) else { return };
        let mut cleared = tasks.clone();
        cleared.remove_all(&job.blamed(tasks));
        self.volatile.clear_suspects(id, &cleared);
    }
}

impl Volatile {
    /// After a restart: of what pilots held that were lost before it only that is known which was blamed.
    pub(super) fn suspect_blamed(&mut self, id: JobId, job: &Job) {
        let blamed = job.blamed(&job.open);
        if !blamed.is_empty() {
            self.suspects.insert(id, blamed);
        }
    }

    /// Tasks have ended for good or were cancelled.
    pub fn clear_suspects(&mut self, job: JobId, tasks: &TaskSet) {
        let Some(suspects) = self.suspects.get_mut(&job) else { return };
        suspects.remove_all(tasks);
        if suspects.is_empty() {
            self.suspects.remove(&job);
        }
    }

    /// Jobs of which the pilot is to have no more than it can run, in order: suspects are ready, or it has some.
    pub(super) fn careful_with(&self, id: PilotId) -> Vec<JobId> {
        let held = |job| self.pilots.get(&id).and_then(|state| state.leases.get(job));
        let ready = |job| self.jobs.get(job).map(|leases| &leases.ready);
        let is_any_of = |suspects: &TaskSet, tasks: Option<&TaskSet>| {
            tasks.is_some_and(|tasks| !suspects.intersection(tasks).is_empty())
        };
        let careful = self.suspects.iter();
        let careful = careful.filter(|(job, all)| is_any_of(all, ready(job)) || is_any_of(all, held(job)));
        careful.map(|(job, _)| *job).collect()
    }

    /// Takes so many ready suspects of a job, but none of those excluded.
    pub fn take_suspects(&mut self, job: JobId, n: u64, excluded: &TaskSet) -> TaskSet {
        let suspects = self.suspects.get(&job).zip(self.jobs.get(&job));
        let Some((suspects, leases)) = suspects else { return TaskSet::new() };
        let mut ready = suspects.intersection(&leases.ready);
        ready.remove_all(excluded);
        let taken = ready.take_first(n);
        self.not_ready(job, &taken);
        taken
    }
}
