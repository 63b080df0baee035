//! Stages of a workflow, as they are submitted.

use crate::{edges::Edges, engine::interface::job_request::JobRequest, ids::JobId};

/// A job of a workflow that is accepted as a whole or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// The job; its own `after` and `workflow` are made of what stands here.
    pub job: JobRequest,
    /// What its tasks wait for.
    pub after: Vec<(On, Edges)>,
}

/// Whose tasks those of a stage wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// The stage of that position in the same workflow, which may be itself.
    Stage(usize),
    /// A job that was accepted before.
    Job(JobId),
}
