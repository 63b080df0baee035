//! Jobs that were once, in a workload log or under a manager: they come as they came, and their tasks take
//! what they took. And pilots that were.

use std::sync::Arc;

use scheduler::{estimates::TaskEstimates, pull::TaskNeeds, ranges::TaskSet, time::Span};

use super::order::Order;

/// A job that is to come.
#[derive(Clone, Debug, PartialEq)]
pub struct Coming {
    /// By position.
    pub user: usize,
    /// By position.
    pub application: usize,
    /// When.
    pub at: Span,
    /// How many tasks.
    pub n_tasks: u64,
    /// What each of them needs.
    pub needs: TaskNeeds,
    /// How often a task whose program failed is run again.
    pub retries: u32,
    /// Higher first.
    pub priority: i32,
    /// Whether that counts among the jobs of all users.
    pub priority_over_all: bool,
    /// How much more one task takes than another, where anybody says.
    pub estimates: Option<TaskEstimates>,
}

/// A job that was, and comes again.
#[derive(Clone, Debug, PartialEq)]
pub struct PastJob {
    /// What is sent.
    pub job: Coming,
    /// What its tasks take.
    pub lengths: Lengths,
    /// What they wait for.
    pub order: Order,
}

/// A pilot that was.
#[derive(Clone, Copy, Debug)]
pub(super) struct PastPilot {
    pub(super) cores: u32,
    /// Its batch job, from submission to the pilot's start.
    pub(super) waited: Span,
    /// How long it was there.
    pub(super) held: Span,
}

/// The place of a task of whose platform nothing is known: it takes the same wherever it runs.
pub const PLACE_UNKNOWN: u16 = u16::MAX;

/// What tasks took, on a platform of speed 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// All the same.
    Alike(Span),
    /// Each its own.
    Each {
        /// By index.
        spans: Arc<[Span]>,
        /// Those that failed.
        failed: TaskSet,
        /// On which platform each was, by position, or [`PLACE_UNKNOWN`]; empty: on one of speed 1.
        places: Arc<[u16]>,
    },
}

impl PastJob {
    /// The same of the user at that position.
    pub(super) fn of_user(mut self, user: usize) -> PastJob {
        self.job.user = user;
        self
    }
}

impl Lengths {
    /// What the longest of them took.
    pub(super) fn longest(&self) -> Span {
        match self {
            Lengths::Alike(span) => *span,
            Lengths::Each { spans, .. } => spans.iter().copied().max().unwrap_or_default(),
        }
    }

    /// The platform where the task of this index took that.
    pub(super) fn place(&self, index: u64) -> Option<usize> {
        match self {
            Lengths::Alike(_) => None,
            Lengths::Each { places, .. } => {
                let place = places.get(index as usize).filter(|place| **place != PLACE_UNKNOWN);
                place.map(|place| usize::from(*place))
            }
        }
    }

    /// What the task of this index takes, and whether it fails then.
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
