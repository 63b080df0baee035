//! Events: all that the engine hears.

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

/// Who asks. The shell has checked that it is true.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user's name.
    pub user: String,
    /// Whether the caller may act on everybody's jobs.
    pub is_operator: bool,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The fields are the words of the design page.
pub enum Event {
    /// The operator wants this platform; an equal one of the same name changes nothing.
    PlatformAttached { request: RequestId, spec: PlatformSpec },
    /// An operator asks to change a platform.
    PlatformChangeAsked { request: RequestId, platform: String, change: PlatformChange },
    /// An operator wants an allocation no more; its pilot ends what it runs first, unless it is urgent.
    AllocationCancelAsked { request: RequestId, allocation: AllocationId, is_urgent: bool },
    /// An operator wants to have forgotten what was learned of an application.
    ForgetAsked { request: RequestId, application: String },
    /// Somebody says what an application is like, or that nothing is said any more.
    DeclareAsked { request: RequestId, application: String, declared: Option<Box<Declared>> },
    /// An operator wants other policies than those that he has seen.
    PoliciesAsked { request: RequestId, by: String, before: Policies, policies: Policies },
    /// The manager has made a token for a user.
    TokenMade { request: RequestId, token: Box<UserToken> },
    /// Somebody has revoked tokens.
    TokensRevoked { request: RequestId, ids: Vec<TokenId>, by: String },
    /// When tokens were last used.
    TokensUsed { used: Vec<(TokenId, Time)> },
    /// A user submits a job.
    JobSubmitted { request: RequestId, job: Box<JobRequest> },
    /// A user submits several jobs, of which some wait for others: all are accepted or none.
    WorkflowSubmitted { request: RequestId, stages: Vec<Stage> },
    /// A user submits a job for the profiling run of a platform: so many tasks at a time, on a node for them alone.
    ProfilingAsked { request: RequestId, job: Box<JobRequest>, platform: String, n_slots: u64 },
    /// A user asks to change jobs.
    JobChangeAsked { request: RequestId, caller: Caller, job: JobId, change: JobChange },
    /// A reader asks.
    Asked { request: RequestId, query: Query },
    /// A pilot presents itself; its join token was right for this tag.
    PilotRegistered { request: RequestId, registration: Box<Registration> },
    /// A pilot reports and asks; its session was right.
    Pulled { request: RequestId, pilot: PilotId, pull: Box<Pull> },
    /// Whoever asked has hung up: do not park it any longer.
    HungUp { request: RequestId },
    /// A pilot leaves; what it has not reported is ready again. The nonce is that of [`Pull::session_nonce`].
    PilotLeft {
        request: RequestId,
        pilot: PilotId,
        session_nonce: Option<u64>,
        report: Option<Report>,
        reason: LeaveReason,
    },
    /// A pilot with nothing to do cannot reach all others of its platform: one of those is to give it some of what
    /// waits. The nonce is that of [`Pull::session_nonce`].
    HuntAsked { request: RequestId, pilot: PilotId, session_nonce: Option<u64> },
    /// A platform answered a submission.
    AllocationAnswered { allocation: AllocationId, outcome: SubmitOutcome },
    /// A platform's listing, asked for at that time.
    PlatformListed { platform: PlatformId, asked_at: Time, result: Result<Vec<ListedAllocation>, String> },
    /// How busy a platform is.
    PlatformLoaded { platform: PlatformId, load: QueueLoad },
    /// A platform's connection waits for a person, or does not any more.
    PlatformWaits { platform: PlatformId, why: Option<String> },
    /// The hosts of a cloud, with what they had when they were to be given so many vCPUs a core, or theirs again.
    RatiosAnswered {
        platform: PlatformId,
        asked: Option<Ratio>,
        result: Result<Vec<FoundProvider>, ScaleTrouble>,
    },
    /// A question to the policies is answered.
    Planned { plan: PlanAnswer },
    /// The manager is to end: pilots drain, or stop at once.
    ShutdownAsked { request: RequestId, is_urgent: bool },
    /// Somebody follows what tasks write: the pilots that hold them are to tell it, except those that do already.
    TailsWanted { job: JobId, tasks: Option<TaskSet>, except: BTreeSet<PilotId> },
    /// A time asked for by [`crate::engine::Engine::next_wakeup`] has come.
    TimerFired,
}

/// What can be asked of a platform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlatformChange {
    /// What is wanted of it.
    Mode(PlatformMode),
    /// What is allowed, until it is attached with other settings.
    Limits {
        /// [`PlatformSpec::n_pilots_max`]
        n_pilots_max: u32,
        /// The others.
        limits: PlatformLimits,
    },
}

/// What can be asked of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobChange {
    /// Kill what runs and forget what waits: all, or these tasks.
    Cancel(Option<TaskSet>),
    /// Begin nothing more; what runs may end.
    Pause,
    /// Go on.
    Resume,
    /// Open failed and cancelled tasks again: all that failed, or these.
    Retry(Option<TaskSet>),
    /// Remove it, which is over, with what its tasks have left. Of these other jobs, those are removed with it that wait for
    /// it and for which it waits.
    Purge(BTreeSet<JobId>),
}
