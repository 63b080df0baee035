//! What the world asks of a scenario while it runs.

use scheduler::{
    ids::{JobId, TaskId},
    time::Span,
};

use super::{
    course::Course,
    ledger::{JobAccount, Ledger},
    patience::Patience,
};

/// How long queues and tasks take, and what fails.
pub(crate) trait TimingModel {
    /// Whether tasks on one node slow each other down.
    fn slows_down(&self) -> bool;

    /// How many applications there are, whose positions are below it.
    fn n_applications(&self) -> usize;

    /// The speed of a task of so many cores on a node with so many busy cores of each application (itself
    /// among them), of its speed alone.
    fn rate(&self, application: usize, cores: u32, busy: &[u32]) -> f64;

    /// How long the batch job of that number waits there.
    fn queue_wait(&self, site: usize, job: u64) -> Span;

    /// What becomes of an attempt at the task of that index.
    fn course(&self, site: usize, job: &JobAccount, index: u64, attempt: u64, limit: Option<Span>) -> Course;
}

/// What a scenario says beyond its plan, and what it comes to.
pub(crate) struct Scene {
    pub(crate) model: Box<dyn TimingModel>,
    pub(crate) ledger: Ledger,
    /// Whether an auditor watches.
    pub(crate) is_audited: bool,
    pub(crate) patience: Patience,
    /// A pilot that is to die, stall or be preempted does so this long after its start, at most.
    pub(crate) trouble_within: Span,
    /// How long a pilot's pull may be parked.
    pub(crate) poll_wait: Span,
}

impl Scene {
    /// The application of a job, where applications slow each other down.
    pub(super) fn is_slowed_down(&self, job: JobId) -> Option<usize> {
        self.ledger.job(job).map(|job| job.application).filter(|_| self.model.slows_down())
    }

    /// What becomes of an attempt at a task there.
    pub(super) fn course(&self, site: usize, task: TaskId, attempt: u32, limit: Option<Span>) -> Course {
        match self.ledger.job(task.job) {
            Some(job) => self.model.course(site, job, task.index, u64::from(attempt), limit),
            None => unreachable!("task {task} is of no job that was kept"),
        }
    }
}
