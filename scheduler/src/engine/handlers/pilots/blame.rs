//! Blame: the tasks that may have caused the loss of a pilot.

use std::collections::BTreeSet;

use crate::{
    engine::{
        handlers::pilots::ends::EndOfPilot, live::blame::N_SUSPECTS_MAX, record::Blamed, state::job::Trouble,
        turn::Turn,
    },
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
};

impl Turn<'_> {
    /// Returns the tasks that may have caused the loss of a pilot: the tasks known to run. Of a job with
    /// unconfirmed bundles, they are the first held tasks, as many as the pilot has slots, if no task is
    /// known to run or if the job has suspects and the pilot holds no more tasks than it can run.
    pub(in crate::engine) fn blame(&self, pilot: PilotId) -> Vec<Blamed> {
        let Some(state) = self.live.pilots.get(&pilot) else { return Vec::new() };
        if self.is_suspended(pilot) {
            // A suspended pilot stands still, whatever it was running.
            return Vec::new();
        }
        let sent: BTreeSet<JobId> =
            state.unconfirmed.iter().flat_map(|part| &part.bundles).map(|bundle| bundle.job).collect();
        let mut suspects: Vec<TaskId> = Vec::new();
        for (job, held) in &state.leases {
            let n_slots = self.n_slots(pilot, *job);
            let is_careful = self.live.suspects.contains_key(job) && held.len() <= n_slots;
            let running = state.running.get(job).filter(|running| !running.is_empty());
            let is_known = !sent.contains(job) || (running.is_some() && !is_careful);
            let tasks = if is_known { running } else { Some(held) };
            // No pilot runs more tasks than it has slots, whatever it reports.
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

    /// Returns whether the pilot's platform reports its allocation as suspended.
    pub(in crate::engine) fn is_suspended(&self, pilot: PilotId) -> bool {
        let pilot = self.durable.pilots().get(&pilot);
        pilot.is_some_and(|pilot| self.live.suspended.contains_key(&pilot.allocation))
    }

    /// Makes all tasks suspect that a lost pilot held of the jobs whose tasks are blamed, except for
    /// quarantined ones. Some tasks may be at their last chance now.
    pub(in crate::engine) fn suspect_all_of(&mut self, id: PilotId, blamed: &[Blamed]) {
        let ran: BTreeSet<JobId> = blamed.iter().map(|blamed| blamed.task.job).collect();
        for job in ran {
            self.note_last_chances(job);
            let held = self.live.pilots.get(&id).and_then(|state| state.leases.get(&job));
            let open = self.durable.jobs().get(&job).map(|job| &job.open);
            let Some((held, open)) = held.zip(open) else { continue };
            let mut suspects = self.live.suspects.remove(&job).unwrap_or_default();
            suspects.insert_all(held);
            let suspects = suspects.intersection(open);
            if !suspects.is_empty() {
                self.live.suspects.insert(job, suspects);
            }
        }
    }

    /// Makes a task suspect after the batch system ended its pilot's job while it ran: it is sent with care,
    /// as after a lost pilot.
    pub(in crate::engine) fn suspect_ended(&mut self, job: JobId, index: u64) {
        let one = TaskSet::from(index..index.saturating_add(1));
        let blamed = self.durable.jobs().get(&job).map(|job| job.blamed(&one)).unwrap_or_default();
        if !blamed.is_empty() {
            self.live.suspects.entry(job).or_default().insert_all(&blamed);
            self.note_last_chances(job);
        }
    }

    /// Clears tasks of suspicion that have ended once, or whose pilot is there after all, unless they are
    /// blamed for another pilot.
    pub(in crate::engine) fn clear_unblamed(&mut self, id: JobId, tasks: &TaskSet) {
        let Some(job) = self.durable.jobs().get(&id) else { return };
        let mut cleared = tasks.clone();
        cleared.remove_all(&job.blamed(tasks));
        self.live.clear_suspects(id, &cleared);
    }
}
