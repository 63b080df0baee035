//! Past jobs, from a workload log or a manager: they arrive at their original times, and their tasks have the
//! original runtimes. And past pilots.

use std::sync::Arc;

use scheduler::{estimates::TaskEstimates, pull::TaskNeeds, ranges::TaskSet, time::Span};

use super::order::Order;

/// A job that will arrive.
#[derive(Clone, Debug, PartialEq)]
pub struct Coming {
    /// The user, by position.
    pub user: usize,
    /// The application, by position.
    pub application: usize,
    /// The time of arrival.
    pub at: Span,
    /// Number of tasks.
    pub n_tasks: u64,
    /// The needs of each task.
    pub needs: TaskNeeds,
    /// Number of retries of a task whose program failed.
    pub retries: u32,
    /// The priority; higher goes first.
    pub priority: i32,
    /// Whether the priority counts among the jobs of all users.
    pub priority_over_all: bool,
    /// Estimates of the tasks, if given.
    pub estimates: Option<TaskEstimates>,
}

/// A past job that is submitted again.
#[derive(Clone, Debug, PartialEq)]
pub struct PastJob {
    /// The submission.
    pub job: Coming,
    /// The lengths of its tasks.
    pub lengths: Lengths,
    /// Its dependencies.
    pub order: Order,
}

/// A past pilot.
#[derive(Clone, Copy, Debug)]
pub(super) struct PastPilot {
    pub(super) cores: u32,
    /// The queue wait of its batch job, from submission to the pilot's start.
    pub(super) waited: Span,
    /// The time for which it existed.
    pub(super) held: Span,
}

/// The place of a task whose platform is unknown: its runtime is the same everywhere.
pub const PLACE_UNKNOWN: u16 = u16::MAX;

/// The runtimes of tasks, on a platform of speed 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// All tasks have the same runtime.
    Alike(Span),
    /// Each task has its own runtime.
    Each {
        /// The runtimes by index.
        spans: Arc<[Span]>,
        /// Tasks that failed.
        failed: TaskSet,
        /// The platform of each task, by position, or [`PLACE_UNKNOWN`]; empty: a platform of speed 1.
        places: Arc<[u16]>,
    },
}

impl PastJob {
    /// Returns the job with the user at that position.
    pub(super) fn of_user(mut self, user: usize) -> PastJob {
        self.job.user = user;
        self
    }
}

impl Lengths {
    /// Returns the longest runtime.
    pub(super) fn longest(&self) -> Span {
        match self {
            Lengths::Alike(span) => *span,
            Lengths::Each { spans, .. } => spans.iter().copied().max().unwrap_or_default(),
        }
    }

    /// Returns the platform on which the task of this index had this runtime.
    pub(super) fn place(&self, index: u64) -> Option<usize> {
        match self {
            Lengths::Alike(_) => None,
            Lengths::Each { places, .. } => {
                let place = places.get(index as usize).filter(|place| **place != PLACE_UNKNOWN);
                place.map(|place| usize::from(*place))
            }
        }
    }

    /// Returns the runtime of the task of this index, and whether it fails then.
    pub(super) fn of(&self, index: u64) -> (Span, bool) {
        match self {
            Lengths::Alike(span) => (*span, false),
            Lengths::Each { spans, failed, .. } => {
                let span = spans.get(index as usize).copied().unwrap_or_default();
                (span, failed.contains(index))
            }
        }
    }
}
