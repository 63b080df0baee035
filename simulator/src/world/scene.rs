//! The interface of a scenario to the world while it runs.

use scheduler::{
    ids::{JobId, TaskId},
    time::Span,
};

use super::{
    course::Course,
    ledger::{JobAccount, Ledger},
    patience::Patience,
};

/// The model of queue waits, runtimes and failures.
pub(crate) trait TimingModel {
    /// Returns whether tasks on one node slow each other down.
    fn slows_down(&self) -> bool;

    /// Returns the number of applications; their positions are below it.
    fn n_applications(&self) -> usize;

    /// Returns the speed of a task relative to its speed alone. `busy`: busy cores of each application on the
    /// node, including its own `cores`.
    fn rate(&self, application: usize, cores: u32, busy: &[u32]) -> f64;

    /// Returns the queue wait of the batch job with this number.
    fn queue_wait(&self, site: usize, job: u64) -> Span;

    /// Returns the course of an attempt at the task with this index.
    fn course(&self, site: usize, job: &JobAccount, index: u64, attempt: u64, limit: Option<Span>) -> Course;
}

/// The inputs of a scenario beyond its plan, and its results.
pub(crate) struct Scene {
    pub(crate) model: Box<dyn TimingModel>,
    pub(crate) ledger: Ledger,
    /// Whether an auditor checks the run.
    pub(crate) is_audited: bool,
    pub(crate) patience: Patience,
    /// The longest time from its start until a pilot that is to die, stall or be preempted does so.
    pub(crate) trouble_within: Span,
    /// The longest time that a pilot's pull may be parked.
    pub(crate) poll_wait: Span,
}

impl Scene {
    /// Returns the application of a job, if applications slow each other down.
    pub(super) fn is_slowed_down(&self, job: JobId) -> Option<usize> {
        self.ledger.job(job).map(|job| job.application).filter(|_| self.model.slows_down())
    }

    /// Returns the course of an attempt at a task on a site.
    pub(super) fn course(&self, site: usize, task: TaskId, attempt: u32, limit: Option<Span>) -> Course {
        match self.ledger.job(task.job) {
            Some(job) => self.model.course(site, job, task.index, u64::from(attempt), limit),
            None => unreachable!("task {task} is of no job that was kept"),
        }
    }
}
