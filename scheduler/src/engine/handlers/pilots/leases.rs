//! Grants leases and takes them back.

use crate::{
    engine::{interface::notice::Notice, live::timers::Timer, turn::Turn},
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
};

impl Turn<'_> {
    /// Leases tasks to a pilot. They must have left the ready set already. Tasks that the pilot holds already
    /// count once.
    pub(in crate::engine) fn lease(&mut self, pilot: PilotId, job: JobId, tasks: &TaskSet) {
        self.live.lease(self.settings, self.durable, pilot, job, tasks);
    }

    /// Takes tasks from a pilot; returns the tasks that it held.
    pub(in crate::engine) fn unlease(&mut self, pilot: PilotId, job: JobId, tasks: &TaskSet) -> TaskSet {
        let Some(request) = self.durable.jobs().get(&job).map(|job| &job.request) else {
            return TaskSet::new();
        };
        let taken = self.live.with_pilot(pilot, |state| {
            let held = state.leases.get_mut(&job)?;
            let taken = held.intersection(tasks);
            held.remove_all(&taken);
            let is_last = held.is_empty();
            if is_last {
                state.leases.remove(&job);
            }
            state.used.take(&request.needs.resources, taken.len());
            Some((taken, is_last, state.leases.is_empty()))
        });
        let Some((taken, is_last, is_idle)) = taken.flatten() else { return TaskSet::new() };
        if is_idle {
            self.live.set_idle(self.durable, pilot, Some(self.now));
        }
        if let Some(leases) = self.live.jobs.get_mut(&job) {
            leases.n_leased -= taken.len();
            if is_last {
                leases.holders.remove(&pilot);
            }
        }
        self.live.note_held_on(self.durable, pilot, job, |held| held - taken.len());
        self.forget_running(pilot, job, &taken);
        self.live.recount(self.settings, self.durable, job);
        taken
    }

    /// Replaces the pilot's running tasks by the reported ones; only tasks that it holds count.
    pub(in crate::engine) fn note_running(&mut self, pilot: PilotId, running: &[(JobId, TaskSet)]) {
        let Some(state) = self.live.pilots.get_mut(&pilot) else { return };
        let mut now_running = std::collections::BTreeMap::new();
        for (job, tasks) in running {
            if let Some(held) = state.leases.get(job) {
                now_running.insert(*job, held.intersection(tasks));
            }
        }
        if state.running == now_running {
            return;
        }
        let before = std::mem::replace(&mut state.running, now_running);
        let jobs: Vec<JobId> = before.keys().chain(state.running.keys()).copied().collect();
        for (job, tasks) in before {
            if let Some(leases) = self.live.jobs.get_mut(&job) {
                leases.n_running -= tasks.len();
            }
        }
        for (job, tasks) in &state.running {
            if let Some(leases) = self.live.jobs.get_mut(job) {
                leases.n_running += tasks.len();
            }
        }
        for job in jobs {
            self.live.recount(self.settings, self.durable, job);
            self.notify(Notice::JobChanged(job));
        }
    }

    fn forget_running(&mut self, pilot: PilotId, job: JobId, tasks: &TaskSet) {
        let Some(state) = self.live.pilots.get_mut(&pilot) else { return };
        let Some(running) = state.running.get_mut(&job) else { return };
        let n_before = running.len();
        running.remove_all(tasks);
        let n_ended = n_before - running.len();
        if running.is_empty() {
            state.running.remove(&job);
        }
        if let Some(leases) = self.live.jobs.get_mut(&job) {
            leases.n_running -= n_ended;
        }
    }

    /// Makes tasks ready that no pilot holds any more: the open ones that are not blocked and have no
    /// unreported results. Tasks that must wait for their retry become ready later.
    pub(in crate::engine) fn make_ready(&mut self, job: JobId, tasks: &TaskSet) {
        let Some(held) = self.durable.jobs().get(&job) else { return };
        let mut open = tasks.intersection(&held.open);
        for (_, unreported_results) in
            self.live.unreported_results.range((job, PilotId(0))..=(job, PilotId(u64::MAX)))
        {
            open.remove_all(unreported_results);
        }
        if let Some(blocked) = self.live.graph.blocked(job) {
            open.remove_all(blocked);
        }
        let mut ready = open.clone();
        for (index, trouble) in open.iter().flat_map(|range| held.troubled.range(range)) {
            if trouble.retry_at > self.now && ready.remove(*index) {
                self.live.timers.insert((trouble.retry_at, Timer::Retry(TaskId { job, index: *index })));
            }
        }
        let is_retried = !held.failed_at.is_empty();
        self.live.add_ready(job, &ready);
        if is_retried {
            self.note_retried(job);
        }
    }

    /// Makes a task ready whose wait for the next attempt is over.
    pub(in crate::engine) fn retry_is_due(&mut self, task: TaskId) {
        if self.live.holder(task).is_some() {
            return;
        }
        self.make_ready(task.job, &TaskSet::from(task.index..task.index + 1));
        // All pilots may have gone meanwhile.
        self.stir_platforms();
    }

    /// Notes tasks that were taken from the pilot and that it may still report on.
    pub(in crate::engine) fn note_revoked(&mut self, pilot: PilotId, job: JobId, tasks: &TaskSet) {
        let Some(state) = self.live.pilots.get_mut(&pilot).filter(|_| !tasks.is_empty()) else { return };
        state.revoked.entry(job).or_default().insert_all(tasks);
    }

    /// Notes which of these unreported tasks have been reopened: the pilot may still report failures from
    /// before the retry.
    pub(in crate::engine) fn note_doubtful(&mut self, pilot: PilotId, job: JobId, unreported: &TaskSet) {
        let Some(reopened) = self.durable.jobs().get(&job).map(|job| &job.reopened) else { return };
        let stale_failures = unreported.intersection(reopened);
        let Some(state) = self.live.pilots.get_mut(&pilot).filter(|_| !stale_failures.is_empty()) else {
            return;
        };
        state.stale_failures.insert(job, stale_failures);
    }

    /// Notes that the pilot has unreported results of these tasks, and another pilot holds them now: should
    /// the other attempt fail, no pilot starts the tasks before the results are reported.
    pub(in crate::engine) fn note_owed(&mut self, pilot: PilotId, job: JobId, tasks: &TaskSet) {
        let open = self.durable.jobs().get(&job).map(|job| tasks.intersection(&job.open));
        if let Some(open) = open.filter(|open| !open.is_empty()) {
            self.live.unreported_results.insert((job, pilot), open);
        }
    }

    /// Notes that the pilot has reported all results of these tasks: the open tasks that no pilot holds
    /// become ready.
    fn settle(&mut self, pilot: PilotId, job: JobId, tasks: &TaskSet) {
        let Some(mut unreported_results) = self.live.unreported_results.remove(&(job, pilot)) else { return };
        let mut settled = unreported_results.intersection(tasks);
        unreported_results.remove_all(tasks);
        if !unreported_results.is_empty() {
            self.live.unreported_results.insert((job, pilot), unreported_results);
        }
        for (_, held) in self.live.held(job) {
            settled.remove_all(&held);
        }
        self.make_ready(job, &settled);
    }

    /// Settles all tasks of a pilot that has nothing more to report, or whose reports will not be heard.
    pub(in crate::engine) fn settle_all(&mut self, pilot: PilotId) {
        let of_it = self.live.unreported_results.iter().filter(|((_, of), _)| *of == pilot);
        let all: Vec<(JobId, TaskSet)> = of_it.map(|((job, _), tasks)| (*job, tasks.clone())).collect();
        for (job, tasks) in all {
            self.settle(pilot, job, &tasks);
        }
    }

    /// Notes that the pilot has reported on these tasks.
    pub(in crate::engine) fn note_answered(&mut self, pilot: PilotId, job: JobId, tasks: &TaskSet) {
        self.settle(pilot, job, tasks);
        if let Some(former) = self.live.former.get_mut(&pilot) {
            if let Some(held) = former.get_mut(&job) {
                held.remove_all(tasks);
            }
            former.retain(|_, held| !held.is_empty());
            if former.is_empty() {
                self.live.former.remove(&pilot);
            }
        }
        let Some(state) = self.live.pilots.get_mut(&pilot) else { return };
        for sets in [&mut state.revoked, &mut state.stale_failures, &mut state.disowned] {
            if let Some(set) = sets.get_mut(&job) {
                set.remove_all(tasks);
            }
            sets.retain(|_, set| !set.is_empty());
        }
    }

    /// Takes tasks that are closed now from the other pilots that hold them, and tells these pilots to stop
    /// them.
    pub(in crate::engine) fn revoke(&mut self, job: JobId, tasks: &TaskSet, except: Option<PilotId>) {
        self.live.not_ready(job, tasks);
        let holders = self.live.jobs.get(&job).map_or_else(Vec::new, |leases| {
            leases.holders.iter().copied().filter(|holder| Some(*holder) != except).collect()
        });
        for holder in holders {
            let taken = self.unlease(holder, job, tasks);
            if !taken.is_empty() {
                self.note_revoked(holder, job, &taken);
                self.command(holder, crate::pull::PilotCommand::Kill { job, tasks: taken });
            }
        }
    }
}
