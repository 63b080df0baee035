//! The stages of a workflow at submission.

use crate::{edges::Edges, engine::interface::job_request::JobRequest, ids::JobId};

/// A job of a workflow that is accepted as a whole or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// The job; the engine sets its `after` and `workflow` from this stage.
    pub job: JobRequest,
    /// The dependencies of its tasks.
    pub after: Vec<(On, Edges)>,
}

/// The job that a stage's tasks wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// The stage at this position in the same workflow; it may be the stage itself.
    Stage(usize),
    /// A job that was accepted before.
    Job(JobId),
}
