//! Effects: all that the engine wants done.

use crate::{
    engine::interface::{
        RequestId,
        answer::Answer,
        notice::Notice,
        planning::PlanRequest,
        platform::{
            allocation::KnownAllocation,
            scaling::{Provider, Ratio},
        },
    },
    ids::{AllocationId, PlatformId},
    time::Span,
};

/// What the shell must do once the step's records are durable.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The fields are the words of the design page.
pub enum Effect {
    /// Tell whoever asked.
    Answer { request: RequestId, answer: Answer },
    /// Ask a platform for an allocation with this tag, for so long.
    Submit { platform: PlatformId, allocation: AllocationId, tag: String, walltime: Option<Span> },
    /// These are not wanted any more: those for which the platform has not been asked yet are not asked for, and that is
    /// the answer, [`SubmitOutcome::Withdrawn`].
    Withdraw { platform: PlatformId, allocations: Vec<AllocationId> },
    /// Take allocations away, by the platform's own ids.
    Cancel { platform: PlatformId, batch_ids: Vec<String> },
    /// Ask a platform for all of ours. `known`: the ids and tags of those that may be there, the newest last; their
    /// batch jobs may have other names by now.
    List { platform: PlatformId, known: Vec<KnownAllocation> },
    /// Ask a platform how busy it is, if it knows.
    Load { platform: PlatformId },
    /// Have those hosts of a cloud that are known from before stand for so many vCPUs a core, or for as many as before.
    Scale { platform: PlatformId, ratio: Option<Ratio>, former: Vec<Provider> },
    /// Answer this, [`PlanRequest::answer`], beside all else; nothing waits for it.
    Plan(PlanRequest),
    /// Tell those who watch.
    Notify(Notice),
}
