//! Effects: the actions that the engine asks for.

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

/// An action that the manager must perform once the step's records are durable.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The fields are the words of the design page.
pub enum Effect {
    /// Send the answer to the sender of the request.
    Answer { request: RequestId, answer: Answer },
    /// Ask a platform for an allocation with this tag and walltime.
    Submit { platform: PlatformId, allocation: AllocationId, tag: String, walltime: Option<Span> },
    /// Withdraw requests for allocations. Each that was not yet sent to the platform is dropped, with the
    /// outcome [`SubmitOutcome::Withdrawn`].
    Withdraw { platform: PlatformId, allocations: Vec<AllocationId> },
    /// Cancel allocations, by the platform's own ids.
    Cancel { platform: PlatformId, batch_ids: Vec<String> },
    /// Ask a platform for a listing of our allocations. `known`: the ids and tags of the allocations that may
    /// be there, the newest last; their batch jobs may have been renamed.
    List { platform: PlatformId, known: Vec<KnownAllocation> },
    /// Ask a platform for its queue load, if it knows one.
    Load { platform: PlatformId },
    /// Set the vCPU ratio of a cloud's hosts; `None`: restore the ratios in `former`, those before the
    /// manager's changes.
    Scale { platform: PlatformId, ratio: Option<Ratio>, former: Vec<Provider> },
    /// Compute the plan ([`PlanRequest::answer`]) in the background; no request waits for it.
    Plan(PlanRequest),
    /// Send a notice to the users that follow events.
    Notify(Notice),
}
