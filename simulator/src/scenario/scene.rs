//! What the world asks of a scenario while it runs.

use scheduler::{
    ids::{JobId, TaskId},
    time::Span,
};

use super::{ledger::Ledger, model::Model, patience::Patience};
use crate::faults::nodes::tasks::Course;

/// What a scenario says beyond its plan, and what it comes to.
pub(crate) struct Scene {
    pub(crate) model: Model,
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
    pub(crate) fn is_slowed_down(&self, job: JobId) -> Option<usize> {
        self.ledger.job(job).map(|job| job.application).filter(|_| self.model.slows_down())
    }

    /// What becomes of an attempt at a task there.
    pub(crate) fn course(&self, site: usize, task: TaskId, attempt: u32, limit: Option<Span>) -> Course {
        match self.ledger.job(task.job) {
            Some(job) => {
                self.model.course(site, job.application, (job.number, task.index), u64::from(attempt), limit)
            }
            None => unreachable!("task {task} is of no job that was kept"),
        }
    }
}
