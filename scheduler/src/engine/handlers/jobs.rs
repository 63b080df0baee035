//! Jobs: submission, pause, resumption, cancellation, retry and end.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        interface::{
            RequestId,
            answer::Answer,
            event::{Caller, JobChange},
            job_request::JobRequest,
            notice::Notice,
            refusal::Refusal,
        },
        record::{CancelCause, Record},
        turn::Turn,
    },
    ids::{JobId, PlatformId},
    pull::PilotCommand,
    ranges::TaskSet,
};

impl Turn<'_> {
    /// Accepts a job, for the profiling run of `profiled_on` if that is given. Returns the id of a new job.
    pub(in crate::engine) fn submit_job(
        &mut self,
        request: RequestId,
        job: JobRequest,
        profiled_on: Option<PlatformId>,
    ) -> Option<JobId> {
        if let Some(known) = job.submission_key.as_deref().and_then(|key| self.durable.submission(key)) {
            self.answer(request, Answer::Submitted { job: known, is_repeat: true });
            return None;
        }
        if self.live.shutdown.is_some() {
            self.refuse(request, Refusal::ShuttingDown);
            return None;
        }
        let id = self.next_job();
        self.record(Record::JobAccepted { job: id, request: job, at: self.now });
        self.open_job(id);
        if let Some(leases) = self.live.jobs.get_mut(&id) {
            leases.profiled_on = profiled_on;
        }
        let ready = self.durable.jobs().get(&id).map(|job| job.open.clone()).unwrap_or_default();
        self.make_ready(id, &ready);
        self.stir_platforms();
        self.notify(Notice::JobChanged(id));
        self.answer(request, Answer::Submitted { job: id, is_repeat: false });
        Some(id)
    }

    /// Returns the id of the next job.
    pub(in crate::engine) fn next_job(&self) -> JobId {
        JobId(self.durable.last_job().max(self.settings.last_job) + 1)
    }

    pub(in crate::engine) fn change_job(
        &mut self,
        request: RequestId,
        caller: &Caller,
        id: JobId,
        change: JobChange,
    ) {
        let Some(job) = self.durable.jobs().get(&id) else {
            return self.refuse(request, Refusal::NoJob(id));
        };
        if !caller.is_operator && caller.user != job.request.user {
            let (owner, caller) = (job.request.user.clone(), caller.user.clone());
            return self.refuse(request, Refusal::NotYours { job: id, owner, caller });
        }
        let (state, is_over, is_paused) = (job.state(), job.ended_at.is_some(), job.is_paused);
        let refusal = |wanted| Refusal::WrongState { job: id, state, wanted };
        let mut n_stale = 0;
        let n_tasks = match change {
            JobChange::Purge(_) if !is_over => {
                return self.refuse(request, refusal("purged: cancel it first"));
            }
            JobChange::Purge(mut meant) => {
                meant.insert(id);
                let knot = self.live.graph.knot(id);
                if let Some(by) = self.who_needs(&knot, &meant) {
                    return self.refuse(request, Refusal::NeededBy { job: id, by });
                }
                self.purge(&knot, &caller.user)
            }
            JobChange::Cancel(_) if is_over => return self.refuse(request, refusal("cancelled")),
            JobChange::Pause if is_over => return self.refuse(request, refusal("paused")),
            JobChange::Resume if is_over => return self.refuse(request, refusal("resumed")),
            JobChange::Cancel(tasks) => {
                let tasks = tasks.map_or_else(|| job.open.clone(), |asked| asked.intersection(&job.open));
                self.cancel_tasks(id, tasks, CancelCause::User(caller.user.clone()))
            }
            JobChange::Pause if is_paused => 0,
            JobChange::Pause => self.pause_job(id),
            JobChange::Resume if !is_paused => 0,
            JobChange::Resume => self.resume_job(id),
            JobChange::Retry(tasks) => {
                let opened = self.reopen_tasks(id, tasks);
                n_stale = self.n_stale(&opened);
                opened.values().map(TaskSet::len).sum()
            }
        };
        self.notify(Notice::JobChanged(id));
        self.answer(request, Answer::Changed { n_tasks, n_stale });
    }

    /// Cancels open tasks; running ones are killed. Returns how many there were.
    pub(in crate::engine) fn cancel_tasks(&mut self, id: JobId, tasks: TaskSet, cause: CancelCause) -> u64 {
        let n_tasks = tasks.len();
        if n_tasks == 0 {
            return 0;
        }
        self.record(Record::TasksCancelled { job: id, tasks: tasks.clone(), cause, at: self.now });
        self.live.clear_suspects(id, &tasks);
        self.live.clear_last_chances(id, &tasks);
        self.revoke(id, &tasks, None);
        self.close_if_over(id);
        n_tasks
    }

    fn pause_job(&mut self, id: JobId) -> u64 {
        self.record(Record::JobPaused { job: id, at: self.now });
        for (pilot, tasks) in self.live.held(id) {
            self.command(pilot, PilotCommand::Return { job: id, tasks });
        }
        self.live.free_keepers(id, 0);
        self.want_plan();
        self.durable.jobs().get(&id).map_or(0, |job| job.open.len())
    }

    fn resume_job(&mut self, id: JobId) -> u64 {
        self.record(Record::JobResumed { job: id, at: self.now });
        self.live.stir_all();
        self.stir_platforms();
        self.durable.jobs().get(&id).map_or(0, |job| job.open.len())
    }

    /// Returns a job that forbids the purge of the knot: one of the knot that has not ended or is not meant,
    /// or another job that depends on the knot.
    fn who_needs(&self, knot: &BTreeSet<JobId>, meant: &BTreeSet<JobId>) -> Option<JobId> {
        let is_over = |id: &JobId| self.durable.jobs().get(id).is_none_or(|job| job.ended_at.is_some());
        let stays = knot.iter().find(|id| !meant.contains(id) || !is_over(id)).copied();
        let outside = || knot.iter().flat_map(|id| self.live.graph.followers(*id));
        stays.or_else(|| outside().find(|id| !knot.contains(id)))
    }

    /// Removes jobs that have ended and on which no other jobs depend. Returns how many tasks they had.
    fn purge(&mut self, knot: &BTreeSet<JobId>, by: &str) -> u64 {
        let mut n_tasks: u64 = 0;
        for id in knot {
            let Some(job) = self.durable.jobs().get(id) else { continue };
            n_tasks = n_tasks.saturating_add(job.request.n_tasks);
            self.live.graph.purge_job(*id, &job.request);
            self.record(Record::JobPurged { job: *id, by: by.to_owned(), at: self.now });
        }
        n_tasks
    }

    /// Reopens failed and cancelled tasks: the given ones, or else all that failed. Returns the reopened
    /// tasks by job.
    fn reopen_tasks(&mut self, id: JobId, asked: Option<TaskSet>) -> BTreeMap<JobId, TaskSet> {
        let Some(job) = self.durable.jobs().get(&id) else { return BTreeMap::new() };
        let tasks = match asked {
            None => job.failed.clone(),
            Some(asked) => {
                let mut closed = job.failed.clone();
                closed.insert_all(&job.cancelled);
                closed.intersection(&asked)
            }
        };
        let tasks = self.reopenable(id, tasks);
        if tasks.is_empty() {
            return BTreeMap::new();
        }
        let opened = self.forsaken_by(id, &tasks);
        for (job, tasks) in &opened {
            self.record(Record::TasksReopened { job: *job, tasks: tasks.clone(), at: self.now });
        }
        for job in opened.keys() {
            self.open_job(*job);
            self.live.recount(self.settings, self.durable, *job);
        }
        self.settle_graph();
        for (job, tasks) in &opened {
            self.make_ready(*job, tasks);
            self.notify(Notice::JobChanged(*job));
        }
        self.stir_platforms();
        opened
    }

    pub(in crate::engine) fn open_job(&mut self, id: JobId) {
        if let Some(job) = self.durable.jobs().get(&id) {
            self.live.add_job(id, job);
            self.live.graph.add_job(self.durable, id);
        }
    }

    /// Closes a job without open tasks: forgets its leases and tells pilots to forget its template.
    pub(in crate::engine) fn close_if_over(&mut self, id: JobId) {
        if self.durable.jobs().get(&id).is_none_or(|job| job.ended_at.is_none()) {
            return;
        }
        self.note_profiled(id);
        self.live.remove_job(id);
        self.want_plan();
        self.notify(Notice::JobEnded(id));
        for pilot in self.live.take_knowing(id) {
            self.command(pilot, PilotCommand::Forget { job: id });
        }
    }
}
