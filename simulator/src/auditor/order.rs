//! Checks of dependencies, edge by edge: no task begins before the tasks that it waits for have ended, and
//! none is cancelled because of a task that did not fail.

use scheduler::{
    edges::{Dependence, Edges, OnFailedDependency},
    engine::{
        interface::{JobRequest, On, Stage},
        record::CancelCause,
    },
    ids::{JobId, TaskId},
    ranges::TaskSet,
    time::Time,
};

use super::{Auditor, Book, Violation};

/// The dependencies of the tasks of a job.
#[derive(Debug)]
pub(super) struct Order {
    after: Vec<Dependence>,
    runs_anyhow: bool,
    /// Tasks that were cancelled because their dependencies had failed.
    forsaken: TaskSet,
    /// Tasks that were cancelled or failed for good at least once.
    once_lost: TaskSet,
}

impl Order {
    pub(super) fn of(request: &JobRequest) -> Order {
        Order {
            after: request.after.clone(),
            runs_anyhow: request.on_failed_dependency == OnFailedDependency::Run,
            forsaken: TaskSet::new(),
            once_lost: TaskSet::new(),
        }
    }

    pub(super) fn note_cancelled(&mut self, tasks: &TaskSet, cause: &CancelCause) {
        self.once_lost.insert_all(tasks);
        match cause {
            CancelCause::Dependency(_) => self.forsaken.insert_all(tasks),
            CancelCause::User(_) | CancelCause::MaxFailures { .. } => self.forsaken.remove_all(tasks),
        }
    }

    pub(super) fn note_failed(&mut self, index: u64) {
        self.once_lost.insert(index);
    }
}

impl Book {
    fn is_lost(&self, index: u64) -> bool {
        self.failed.contains(index) || self.cancelled.contains(index)
    }
}

impl Auditor {
    /// Notes a workflow that a user sends.
    pub(crate) fn submits_all(&mut self, stages: &[Stage]) {
        for (at, stage) in stages.iter().enumerate() {
            self.submits(&stage.job);
            let key = stage.job.submission_key.clone().unwrap_or_default();
            self.sent_after.insert(key, (at as u64, stage.after.clone()));
        }
    }

    /// Rule 1: a stage has the dependencies that were sent.
    pub(super) fn comes_after_as_sent(&self, job: JobId, request: &JobRequest) -> Result<(), Violation> {
        let key = request.submission_key.clone().unwrap_or_default();
        let Some((place, sent)) = self.sent_after.get(&key) else {
            ensure!(request.after.is_empty(), "job {job} was to wait for nothing");
            return Ok(());
        };
        let first = job.0 - place;
        ensure!(request.workflow == Some(JobId(first)), "job {job} is of workflow {:?}", request.workflow);
        let dependence = |(on, edges): &(On, Edges)| match on {
            On::Job(on) => Dependence { on: *on, edges: edges.clone() },
            On::Stage(at) => Dependence { on: JobId(first + *at as u64), edges: edges.clone() },
        };
        let wanted: Vec<Dependence> = sent.iter().map(dependence).collect();
        ensure!(request.after == wanted, "job {job} waits for {:?}; sent was {sent:?}", request.after);
        Ok(())
    }

    /// Returns all tasks that the task waits for, one by one.
    fn before(&self, task: TaskId) -> Vec<TaskId> {
        let Some(book) = self.books.get(&task.job) else { return Vec::new() };
        let mut all = Vec::new();
        for Dependence { on, edges } in &book.order.after {
            let n_on = self.books.get(on).map_or(0, |on| on.n_tasks);
            let indices: Vec<u64> = match edges {
                Edges::All => (0..n_on).collect(),
                Edges::Same => vec![task.index],
                Edges::Groups(width) => (task.index * width..(task.index + 1) * width).collect(),
                Edges::Spread(width) => vec![task.index / width],
                Edges::Listed(listed) => listed.of(task.index).collect(),
            };
            all.extend(indices.into_iter().map(|index| TaskId { job: *on, index }));
        }
        all
    }

    /// Checks the start of a process: the successes of all tasks that its task waits for are durable, or,
    /// where failures do not matter, their ends.
    pub(super) fn may_begin(&self, task: TaskId) -> Result<(), Violation> {
        let runs_anyhow = self.books.get(&task.job).is_some_and(|book| book.order.runs_anyhow);
        for before in self.before(task) {
            let Some(book) = self.books.get(&before.job) else { continue };
            let is_done = book.done.contains(before.index);
            ensure!(
                is_done || (runs_anyhow && book.order.once_lost.contains(before.index)),
                "task {task} began before {before}, which it waits for, was over"
            );
        }
        Ok(())
    }

    /// Returns whether the task waits for one that has failed or was cancelled. Tasks in `opened` of its own
    /// job do not count.
    fn waits_in_vain(&self, task: TaskId, opened: &TaskSet) -> bool {
        let is_lost = |before: &TaskId| {
            let is_opened = before.job == task.job && opened.contains(before.index);
            !is_opened && self.books.get(&before.job).is_some_and(|book| book.is_lost(before.index))
        };
        self.before(task).iter().any(is_lost)
    }

    /// Returns those of these tasks that need not be retried because they would wait in vain.
    pub(super) fn in_vain(&self, job: JobId, tasks: &TaskSet) -> TaskSet {
        if self.books.get(&job).is_none_or(|book| book.order.runs_anyhow || book.order.after.is_empty()) {
            return TaskSet::new();
        }
        let none = TaskSet::new();
        tasks.indices().filter(|index| self.waits_in_vain(TaskId { job, index: *index }, &none)).collect()
    }

    /// Checks that tasks are cancelled for a lost task only if they wait for it, directly or through each
    /// other.
    pub(super) fn may_forsake(&self, job: JobId, tasks: &TaskSet, root: TaskId) -> Result<(), Violation> {
        let is_lost = self.books.get(&root.job).is_some_and(|book| book.is_lost(root.index));
        ensure!(is_lost, "tasks {tasks} of job {job} were cancelled for task {root}, which has not failed");
        let runs_anyhow = self.books.get(&job).is_some_and(|book| book.order.runs_anyhow);
        ensure!(!runs_anyhow, "tasks {tasks} of job {job} were cancelled although they were to run anyhow");
        for index in tasks.indices() {
            let task = TaskId { job, index };
            let within = self.before(task).iter().any(|b| b.job == job && tasks.contains(b.index));
            ensure!(
                within || self.waits_in_vain(task, &TaskSet::new()),
                "task {task} was cancelled though nothing that it waits for has failed"
            );
        }
        Ok(())
    }

    /// Returns the tasks that may not be opened again without a user's request: they were not cancelled
    /// because of a dependency, or a task that they wait for is still lost.
    pub(super) fn unforsaken(&self, job: JobId, tasks: &TaskSet, opened: &TaskSet) -> TaskSet {
        let Some(book) = self.books.get(&job) else { return tasks.clone() };
        let is_wrong = |index: &u64| {
            !book.order.forsaken.contains(*index) || self.waits_in_vain(TaskId { job, index: *index }, opened)
        };
        tasks.indices().filter(is_wrong).collect()
    }

    /// Handles the cancellation of tasks.
    pub(super) fn cancelled(
        &mut self,
        job: JobId,
        tasks: &TaskSet,
        cause: &CancelCause,
        at: Time,
    ) -> Result<(), Violation> {
        self.may_cancel(job, tasks, cause, at)?;
        let Some(book) = self.books.get_mut(&job) else { return Ok(()) };
        ensure!(tasks.intersection(&book.done).is_empty(), "finished tasks of job {job} were cancelled");
        book.cancelled.insert_all(tasks);
        book.order.note_cancelled(tasks, cause);
        book.revoked.push((at, tasks.clone()));
        self.forget_failures(job, tasks);
        Ok(())
    }

    /// Handles tasks that are opened again.
    pub(super) fn reopened(&mut self, job: JobId, tasks: &TaskSet, at: Time) -> Result<(), Violation> {
        self.may_reopen(job, tasks, at)?;
        let Some(book) = self.books.get_mut(&job) else { return Ok(()) };
        ensure!(tasks.intersection(&book.done).is_empty(), "finished tasks of job {job} were opened");
        book.failed.remove_all(tasks);
        book.cancelled.remove_all(tasks);
        book.n_failed_before = book.failed.len();
        book.revoked.push((at, tasks.clone()));
        self.forget_failures(job, tasks);
        self.put_back(job, tasks, at);
        Ok(())
    }

    /// Handles tasks that are open again: tasks that wait for them and run whatever their end, wait again.
    pub(super) fn put_back(&mut self, job: JobId, tasks: &TaskSet, at: Time) {
        let waits_for_it = |book: &Book| book.order.after.iter().any(|dependence| dependence.on == job);
        let followers = self.books.iter().filter(|(_, book)| waits_for_it(book));
        let followers: Vec<(JobId, u64)> = followers.map(|(id, book)| (*id, book.n_tasks)).collect();
        for (follower, n_tasks) in followers {
            let waits = |index: &u64| {
                let before = self.before(TaskId { job: follower, index: *index });
                before.iter().any(|before| before.job == job && tasks.contains(before.index))
            };
            let waiting: TaskSet = (0..n_tasks).filter(waits).collect();
            if let Some(book) = self.books.get_mut(&follower) {
                book.put_back.push((at, waiting));
            }
        }
        if let Some(book) = self.books.get_mut(&job) {
            book.order.forsaken.remove_all(tasks);
        }
    }
}
