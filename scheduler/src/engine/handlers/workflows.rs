//! Workflows: jobs whose tasks wait for other tasks. When a task ends, others may start, or are cancelled.

use std::collections::BTreeMap;

use crate::{
    edges::{Dependence, EdgeProblem, OnFailedDependency, Shape, check, sizes},
    engine::{
        interface::{
            RequestId,
            answer::Answer,
            job_request::JobRequest,
            notice::Notice,
            refusal::Refusal,
            workflow::{On, Stage},
        },
        record::{CancelCause, Record},
        state::dependencies::{Backwards, Shift, lost_before},
        turn::Turn,
    },
    ids::{JobId, TaskId},
    ranges::TaskSet,
};

/// Tasks by job.
type Tasks = BTreeMap<JobId, TaskSet>;

impl Turn<'_> {
    /// Accepts all stages, or none.
    pub(in crate::engine) fn submit_workflow(&mut self, request: RequestId, stages: Vec<Stage>) {
        let known = |stage: &Stage| self.durable.submission(stage.job.submission_key.as_deref()?);
        let known: Vec<JobId> = stages.iter().filter_map(known).collect();
        if let Some(first) = known.first().copied() {
            return match known.len() == stages.len() {
                true => self.answer(request, Answer::WorkflowSubmitted { jobs: known, is_repeat: true }),
                false => self.refuse(request, Refusal::KnownInPart(first)),
            };
        }
        if self.live.shutdown.is_some() {
            return self.refuse(request, Refusal::ShuttingDown);
        }
        if let Err(problem) = self.check_workflow(&stages) {
            return self.refuse(request, Refusal::Unfit(problem));
        }
        let first = self.next_job().0;
        let jobs: Vec<JobId> = (first..).take(stages.len()).map(JobId).collect();
        for (id, Stage { job, after }) in jobs.iter().zip(stages) {
            let dependence = |(on, edges)| match on {
                On::Job(on) => Dependence { on, edges },
                On::Stage(at) => Dependence { on: JobId(first + at as u64), edges },
            };
            let after = after.into_iter().map(dependence).collect();
            let job = JobRequest { after, workflow: Some(JobId(first)), ..job };
            self.record(Record::JobAccepted { job: *id, request: job, at: self.now });
        }
        for id in &jobs {
            self.open_job(*id);
            self.note_lost_before(*id);
        }
        for id in &jobs {
            let open = self.durable.jobs().get(id).map(|job| job.open.clone()).unwrap_or_default();
            self.make_ready(*id, &open);
            self.notify(Notice::JobChanged(*id));
        }
        self.settle_graph();
        self.stir_platforms();
        self.answer(request, Answer::WorkflowSubmitted { jobs, is_repeat: false });
    }

    /// Marks tasks that were lost before this job came, so that the tasks that depend on them are looked at.
    fn note_lost_before(&mut self, id: JobId) {
        let Some(job) = self.durable.jobs().get(&id) else { return };
        for dependence in &job.request.after {
            let lost = self.durable.jobs().get(&dependence.on).map(|on| on.lost()).unwrap_or_default();
            self.live.graph.note_changed(dependence.on, &lost);
        }
    }

    fn check_workflow(&self, stages: &[Stage]) -> Result<(), EdgeProblem> {
        for (at, stage) in stages.iter().enumerate() {
            for (on, edges) in &stage.after {
                let On::Job(id) = on else { continue };
                let job = self.durable.jobs().get(id);
                let job = job.ok_or(EdgeProblem::NoJob { stage: at, job: *id })?;
                sizes(at, edges, stage.job.n_tasks, job.request.n_tasks)?;
            }
        }
        let shape = |stage: &'_ Stage| stage.job.n_tasks;
        let shapes: Vec<Shape<'_>> = stages
            .iter()
            .map(|stage| {
                let within = stage.after.iter().filter_map(|(on, edges)| match on {
                    On::Stage(at) => Some((*at, edges)),
                    On::Job(_) => None,
                });
                Shape { n_tasks: shape(stage), after: within.collect() }
            })
            .collect();
        check(&shapes)
    }

    /// Applies the consequences of tasks that have ended or were reopened: other tasks are cancelled, become
    /// ready, or wait again.
    pub(in crate::engine) fn settle_graph(&mut self) {
        let mut is_any_freed = false;
        while !self.live.graph.is_settled() {
            let changed = self.live.graph.take_changed();
            self.forsake(&changed);
            for (id, tasks) in changed {
                for (follower, shift) in self.live.graph.shift(self.durable, id, &tasks) {
                    let Shift { freed, blocked } = shift;
                    is_any_freed |= !freed.is_empty();
                    self.make_ready(follower, &freed);
                    if !blocked.is_empty() {
                        // The tasks for which it waits must run again first.
                        self.revoke(follower, &blocked, None);
                    }
                }
            }
        }
        if is_any_freed {
            self.stir_platforms();
        }
    }

    /// Cancels the tasks that depend, directly or not, on those of these tasks that failed for good or were
    /// cancelled.
    fn forsake(&mut self, changed: &Tasks) {
        let mut lost: Vec<(JobId, TaskSet)> = Vec::new();
        for (id, tasks) in changed {
            let Some(job) = self.durable.jobs().get(id) else { continue };
            let mut of_it = tasks.intersection(&job.failed);
            of_it.insert_all(&tasks.intersection(&job.cancelled));
            if !of_it.is_empty() {
                lost.push((*id, of_it));
            }
        }
        let mut causes = BTreeMap::<JobId, TaskId>::new();
        let (mut doomed, mut cache) = (Tasks::new(), Backwards::new());
        while let Some((id, tasks)) = lost.pop() {
            let first = TaskId { job: id, index: tasks.first().unwrap_or(0) };
            let root = causes.get(&id).copied().filter(|_| doomed.contains_key(&id)).unwrap_or(first);
            for (follower, waiting) in self.live.graph.waiting_for(self.durable, &mut cache, id, &tasks) {
                let Some(job) = self.durable.jobs().get(&follower) else { continue };
                if job.request.on_failed_dependency == OnFailedDependency::Run {
                    continue;
                }
                let mut new = waiting.intersection(&job.open);
                let before = doomed.entry(follower).or_default();
                new.remove_all(before);
                if !new.is_empty() {
                    before.insert_all(&new);
                    causes.entry(follower).or_insert(root);
                    lost.push((follower, new));
                }
            }
        }
        for (id, tasks) in doomed {
            let Some(cause) = causes.get(&id).copied() else { continue };
            if self.cancel_tasks(id, tasks, CancelCause::Dependency(cause)) > 0 {
                self.notify(Notice::JobChanged(id));
            }
        }
    }

    /// Returns those of these tasks that can be reopened: not the tasks that depend on a task that stays
    /// failed.
    pub(in crate::engine) fn reopenable(&self, id: JobId, mut tasks: TaskSet) -> TaskSet {
        let Some(job) = self.durable.jobs().get(&id) else { return TaskSet::new() };
        let mut cache = Backwards::new();
        let opened = Tasks::from([(id, tasks.clone())]);
        let mut lost = lost_before(self.durable, job, &tasks, &opened);
        while !lost.is_empty() {
            tasks.remove_all(&lost);
            let waiting = self.live.graph.waiting_for(self.durable, &mut cache, id, &lost);
            let within = waiting.into_iter().find(|(follower, _)| *follower == id);
            lost = within.map_or_else(TaskSet::new, |(_, waiting)| waiting.intersection(&tasks));
        }
        tasks
    }

    /// Returns how many done tasks depend on these, directly or not: they ran without them.
    pub(in crate::engine) fn n_stale(&self, opened: &Tasks) -> u64 {
        let (mut stale, mut cache) = (Tasks::new(), Backwards::new());
        let mut new: Vec<(JobId, TaskSet)> = opened.iter().map(|(id, tasks)| (*id, tasks.clone())).collect();
        while let Some((id, tasks)) = new.pop() {
            for (follower, mut done) in self.live.graph.waiting_for(self.durable, &mut cache, id, &tasks) {
                let Some(job) = self.durable.jobs().get(&follower) else { continue };
                done.remove_all(&job.open);
                done.remove_all(&job.lost());
                let known = stale.entry(follower).or_default();
                done.remove_all(known);
                known.insert_all(&done);
                if !done.is_empty() {
                    new.push((follower, done));
                }
            }
        }
        stale.values().map(TaskSet::len).sum()
    }

    /// Returns the tasks to reopen together with the given ones: tasks of this and other jobs that were
    /// cancelled because these had failed, and whose other dependencies are not lost.
    pub(in crate::engine) fn forsaken_by(&self, id: JobId, tasks: &TaskSet) -> Tasks {
        let (mut opened, mut cache) = (Tasks::from([(id, tasks.clone())]), Backwards::new());
        let mut new = vec![(id, tasks.clone())];
        while let Some((id, tasks)) = new.pop() {
            for (follower, waiting) in self.live.graph.waiting_for(self.durable, &mut cache, id, &tasks) {
                let Some(job) = self.durable.jobs().get(&follower) else { continue };
                let mut back = waiting.intersection(&job.forsaken);
                if let Some(before) = opened.get(&follower) {
                    back.remove_all(before);
                }
                let lost = lost_before(self.durable, job, &back, &opened);
                back.remove_all(&lost);
                if !back.is_empty() {
                    opened.entry(follower).or_default().insert_all(&back);
                    new.push((follower, back));
                }
            }
        }
        opened
    }
}
