//! Events: the inputs of the engine.

use std::collections::BTreeSet;

use crate::{
    engine::interface::{
        RequestId,
        declared_profile::Declared,
        job_request::JobRequest,
        planning::PlanAnswer,
        platform::{
            allocation::{ListedAllocation, SubmitOutcome},
            platform_spec::{PlatformLimits, PlatformMode, PlatformSpec},
            queue_load::QueueLoad,
            scaling::{FoundProvider, Ratio, ScaleTrouble},
        },
        query::Query,
        users::{TokenId, UserToken},
        workflow::Stage,
    },
    ids::{AllocationId, JobId, PilotId, PlatformId},
    policy::Policies,
    pull::{LeaveReason, Pull, Registration},
    ranges::TaskSet,
    results::Report,
    time::Time,
};

/// The user who sent a request. The manager has checked the token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user's name.
    pub user: String,
    /// Whether the caller may act on the jobs of all users.
    pub is_operator: bool,
}

/// An input of the engine.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The fields are the words of the design page.
pub enum Event {
    /// The operator attaches a platform; if an equal platform of this name is attached, nothing changes.
    PlatformAttached { request: RequestId, spec: PlatformSpec },
    /// An operator asks to change a platform.
    PlatformChangeAsked { request: RequestId, platform: String, change: PlatformChange },
    /// An operator cancels an allocation. Its pilot ends its running tasks first, unless the request is
    /// urgent.
    AllocationCancelAsked { request: RequestId, allocation: AllocationId, is_urgent: bool },
    /// An operator asks to forget the measurements of an application.
    ForgetAsked { request: RequestId, application: String },
    /// A user declares properties of an application, or removes the declaration (`None`).
    DeclareAsked { request: RequestId, application: String, declared: Option<Box<Declared>> },
    /// An operator sets policies. `before`: the policies that the operator has seen.
    PoliciesAsked { request: RequestId, by: String, before: Policies, policies: Policies },
    /// The manager has made a token for a user.
    TokenMade { request: RequestId, token: Box<UserToken> },
    /// A user or operator has revoked tokens.
    TokensRevoked { request: RequestId, ids: Vec<TokenId>, by: String },
    /// The times at which tokens were last used.
    TokensUsed { used: Vec<(TokenId, Time)> },
    /// A user submits a job.
    JobSubmitted { request: RequestId, job: Box<JobRequest> },
    /// A user submits jobs with dependencies among them: all are accepted or none.
    WorkflowSubmitted { request: RequestId, stages: Vec<Stage> },
    /// A user submits a job for the profiling run of a platform: `n_slots` tasks at a time, alone on a node.
    ProfilingAsked { request: RequestId, job: Box<JobRequest>, platform: String, n_slots: u64 },
    /// A user asks to change a job.
    JobChangeAsked { request: RequestId, caller: Caller, job: JobId, change: JobChange },
    /// A reader sends a query.
    Asked { request: RequestId, query: Query },
    /// A pilot registers; the manager has checked that its join token belongs to this tag.
    PilotRegistered { request: RequestId, registration: Box<Registration> },
    /// A pilot sends reports and asks for tasks; the manager has checked its session.
    Pulled { request: RequestId, pilot: PilotId, pull: Box<Pull> },
    /// The client of a request has closed the connection: a parked pull must not wait any longer.
    HungUp { request: RequestId },
    /// A pilot leaves; tasks without a result become ready again. The nonce is [`Pull::session_nonce`].
    PilotLeft {
        request: RequestId,
        pilot: PilotId,
        session_nonce: Option<u64>,
        report: Option<Report>,
        reason: LeaveReason,
    },
    /// An idle pilot cannot reach all other pilots of its platform: the engine asks one of these to give it
    /// waiting tasks. The nonce is [`Pull::session_nonce`].
    HuntAsked { request: RequestId, pilot: PilotId, session_nonce: Option<u64> },
    /// A platform has answered a request for an allocation.
    AllocationAnswered { allocation: AllocationId, outcome: SubmitOutcome },
    /// A platform's listing, which was requested at `asked_at`.
    PlatformListed { platform: PlatformId, asked_at: Time, result: Result<Vec<ListedAllocation>, String> },
    /// The queue load of a platform.
    PlatformLoaded { platform: PlatformId, load: QueueLoad },
    /// A platform's connection waits for a person to log in (`why`), or no longer does (`None`).
    PlatformWaits { platform: PlatformId, why: Option<String> },
    /// A cloud's hosts, with the ratios that they had before they were to get the ratio `asked`, or before
    /// their former ratios were restored (`None`).
    RatiosAnswered {
        platform: PlatformId,
        asked: Option<Ratio>,
        result: Result<Vec<FoundProvider>, ScaleTrouble>,
    },
    /// A plan is ready.
    Planned { plan: PlanAnswer },
    /// The manager is to end: pilots drain, or stop at once if it is urgent.
    ShutdownAsked { request: RequestId, is_urgent: bool },
    /// A client follows the output of tasks: the pilots that hold them must send it, except those that
    /// already do.
    TailsWanted { job: JobId, tasks: Option<TaskSet>, except: BTreeSet<PilotId> },
    /// The time that [`crate::engine::Engine::next_wakeup`] returned has come.
    TimerFired,
}

/// A change of a platform that an operator requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlatformChange {
    /// The new mode.
    Mode(PlatformMode),
    /// New limits, until the platform is attached with other settings.
    Limits {
        /// The new value of [`PlatformSpec::n_pilots_max`].
        n_pilots_max: u32,
        /// The further limits.
        limits: PlatformLimits,
    },
}

/// A change of a job that a user requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobChange {
    /// Cancel tasks, running ones included: all open ones, or these.
    Cancel(Option<TaskSet>),
    /// Start no more tasks; running ones may end.
    Pause,
    /// Start tasks again after a pause.
    Resume,
    /// Reopen tasks: all failed ones, or these failed and cancelled ones.
    Retry(Option<TaskSet>),
    /// Remove the ended job with the files of its tasks. Those of the given jobs that are in a cycle of
    /// dependencies with it are removed, too.
    Purge(BTreeSet<JobId>),
}
