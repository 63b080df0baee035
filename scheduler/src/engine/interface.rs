//! All that the engine hears and says: one closed enum of events, one of effects.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

pub use super::{
    agreement::Doubt,
    allocation::{KnownAllocation, ListedAllocation, SubmitOutcome},
    load::QueueLoad,
    scaling::{ScalingSpec, ScalingWay},
    workflows::{On, Stage},
};
use super::{
    declared::Declared,
    guide::Guide,
    policies::PoliciesView,
    price::{Money, Price},
    profile::ProfileView,
    question::Question,
    record::Record,
    scaling::{FoundProvider, Provider, Ratio, ScaleTrouble, ScalingChange},
    users::{TokenId, UserToken},
    views::{
        AllocationView, HoldingsView, JobView, PilotView, PlatformView, SessionView, StatusView, TaskView,
    },
    waits::Shape,
    weights::WeightsView,
};
use crate::{
    edges::{Dependence, EdgeProblem, OnFailedDependency},
    estimates::TaskEstimates,
    explain::Reason,
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    policy::Policies,
    pull::{LeaveReason, Pull, PullAnswer, Registered, Registration, TaskNeeds},
    ranges::TaskSet,
    resources::Resources,
    results::{FailureKind, Report},
    time::{Span, Time},
};

/// Names a question so that the shell can bring the answer to whoever asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// What the engine must know of a job. The rest is in `spec`, which it only passes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobRequest {
    /// Whose it is.
    pub user: String,
    /// For people.
    pub name: String,
    /// The kind of program.
    pub application: String,
    /// How many tasks: indices 0 .. n_tasks.
    pub n_tasks: u64,
    /// What each task needs.
    pub needs: TaskNeeds,
    /// Higher first, among the jobs of its user.
    pub priority: i32,
    /// Whether its priority counts among the jobs of all users: an operator has allowed that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub priority_over_all: bool,
    /// How often a task is tried again after its program failed.
    pub retries: u32,
    /// The wait before the first retry; doubles with each.
    pub retry_delay: Span,
    /// How many pilots a task may take down before it is quarantined.
    pub crash_limit: u32,
    /// The rest of the job is cancelled when more tasks than this have failed.
    pub max_failures: Option<u64>,
    /// Drawn by the submitter, so that a repeated submission is known as the same.
    pub submission_key: Option<String>,
    /// How much more one task takes than another, where anybody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimates: Option<TaskEstimates>,
    /// What its tasks wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Dependence>,
    /// What becomes of those of them that wait for what fails.
    #[serde(default, skip_serializing_if = "OnFailedDependency::is_default")]
    pub on_failed_dependency: OnFailedDependency,
    /// The first job of the workflow of which it is a stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<JobId>,
    /// The resolved job as JSON.
    pub spec: Arc<str>,
}

impl JobRequest {
    /// Its priority among the jobs of all users: 0 unless an operator has allowed more.
    pub fn rank(&self) -> i32 {
        if self.priority_over_all { self.priority } else { 0 }
    }
}

/// What a platform's operator allows beside [`PlatformSpec::n_pilots_max`]; `None`: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PlatformLimits {
    /// Allocations that are there and whose pilots have not come.
    pub n_queued_max: Option<u32>,
    /// Allocations asked for within any minute.
    pub n_submissions_per_minute: Option<u32>,
    /// Cores × time of allocations that ended, and of those there with their walltime: none is asked for without.
    pub core_time_max: Option<Span>,
    /// Cores × time of the tasks of any one user: what those took that pilots have reported, and what those are
    /// expected to take that pilots hold. No more of them begin than it allows.
    pub user_core_time_max: Option<Span>,
    /// What all allocations may cost, those that have ended and, with their whole walltime, those that are there.
    /// Nothing is asked for without a walltime. Of a platform without a price nothing.
    pub cost_max: Option<Money>,
}

/// What an operator wants of a platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PlatformMode {
    /// Pilots, when there is work for them.
    #[default]
    Active,
    /// No more allocations; what is there goes on.
    Paused,
    /// No more allocations; those that wait are cancelled, and pilots leave when their tasks have ended.
    Draining,
    /// Taken away: nothing is there, and nothing is asked for until it is attached again.
    Detached,
}

/// A source of pilots as the operator attached it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlatformSpec {
    /// Unique among platforms.
    pub name: String,
    /// The adapter's name.
    pub adapter: String,
    /// Where it is asked: the SSH host, or the name of the cloud; empty: this host, or where the environment says. `None`:
    /// a record of before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// What one pilot there offers.
    pub capacity: Resources,
    /// How many nodes one allocation has, each with a pilot.
    #[serde(default = "one")]
    pub n_nodes: u32,
    /// Whether each of them begins and ends for itself, as the tasks of a job array.
    #[serde(default)]
    pub is_array: bool,
    /// Whether a submission may take effect although its manager has gone: until `Settings::submit_limit` is over.
    #[serde(default)]
    pub submits_late: bool,
    /// Whether a pilot's token may be read by what runs beside it: it serves once, and not for one started again.
    #[serde(default)]
    pub joins_once: bool,
    /// Pilots wanted even when there is nothing to do.
    pub n_pilots_min: u32,
    /// Never more pilots than this.
    pub n_pilots_max: u32,
    /// A pilot without work for so long is sent away.
    pub idle_timeout: Span,
    /// How long an allocation may run; `None`: no end.
    pub walltime: Option<Span>,
    /// How often to ask the platform for what is there.
    pub poll_interval: Span,
    /// What else is allowed.
    #[serde(default)]
    pub limits: PlatformLimits,
    /// How its cores may stand for more vCPUs than one each; `None`: they do not.
    #[serde(default)]
    pub scaling: Option<ScalingSpec>,
    /// What it costs, if that is known.
    #[serde(default)]
    pub price: Option<Price>,
}

fn one() -> u32 {
    1
}

impl PlatformSpec {
    /// What the platform's queue may care about of an allocation.
    pub fn shape(&self) -> Shape {
        Shape { cores: self.cores_of_allocation(), n_nodes: self.n_nodes, walltime: self.walltime }
    }

    /// Cores of one allocation, of all its nodes.
    pub fn cores_of_allocation(&self) -> u32 {
        self.capacity.cores.saturating_mul(self.n_nodes)
    }
}

/// Batch jobs that may be left on a platform when the manager ends, for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftThere {
    /// The platform's name.
    pub platform: String,
    /// Their ids, or their names where the ids are not known.
    pub batch_jobs: Vec<String>,
    /// Why they may be left.
    pub why: String,
}

/// Who asks. The shell has checked that it is true.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user's name.
    pub user: String,
    /// Whether the caller may act on everybody's jobs.
    pub is_operator: bool,
}

/// What a reader wants to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// Totals of everything.
    Status,
    /// All jobs.
    Jobs,
    /// One job.
    Job(JobId),
    /// One task.
    Task(TaskId),
    /// All pilots, those that have ended only on request.
    Pilots {
        /// Those that have ended too.
        with_ended: bool,
    },
    /// All platforms.
    Platforms,
    /// All allocations, those that have ended only on request.
    Allocations {
        /// Those that have ended too.
        with_ended: bool,
    },
    /// One allocation.
    Allocation(AllocationId),
    /// What was learned of all applications.
    Profiles,
    /// The policies and their history.
    Policies,
    /// The weights and their history.
    Weights,
    /// Why a job is where it is.
    ExplainJob(JobId),
    /// Why a task is where it is.
    ExplainTask(TaskId),
    /// Why a pilot does what it does.
    ExplainPilot(PilotId),
    /// Why a platform has the pilots it has.
    ExplainPlatform(String),
    /// Why an application's tasks are divided among platforms as they are.
    ExplainWeight(String),
    /// Why an allocation is there.
    ExplainAllocation(AllocationId),
    /// The job's spec as JSON.
    Spec(JobId),
    /// What a user has of jobs, and whether this submission is known.
    Holdings {
        /// By the name.
        user: String,
        /// The submission's key.
        key: Option<String>,
    },
    /// What a live pilot with that session may ask for.
    Session(PilotId, u64),
    /// The name of the platform of a pilot, of one that has ended, too.
    PlatformOfPilot(PilotId),
    /// The same of the allocation with this tag.
    PlatformOfTag(String),
    /// Tasks of the job in a state, as ranges.
    TasksIn(JobId, TaskFilter),
    /// What a task waits for, or has waited for.
    WaitedFor(TaskId),
}

/// States of tasks to ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TaskFilter {
    /// Every task.
    All,
    /// Not held by any pilot.
    Waiting,
    /// Held by a pilot, not begun.
    Queued,
    /// Begun.
    Running,
    /// Succeeded.
    Done,
    /// Failed for good.
    Failed,
    /// Cancelled.
    Cancelled,
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
    Guided { guide: Box<Guide> },
    /// The manager is to end: pilots drain, or stop at once.
    ShutdownAsked { request: RequestId, is_urgent: bool },
    /// Somebody follows what tasks write: the pilots that hold them are to tell it, except those that do already.
    TailsWanted { job: JobId, tasks: Option<TaskSet>, except: BTreeSet<PilotId> },
    /// A time asked for by [`super::Engine::next_wakeup`] has come.
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

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No such job.
    #[error("there is no job {0}")]
    NoJob(JobId),
    /// No such task.
    #[error("job {} has tasks 0 to {}, not {}", .0.job, .1.saturating_sub(1), .0.index)]
    NoTask(TaskId, u64),
    /// No such pilot.
    #[error("there is no pilot {0}")]
    NoPilot(PilotId),
    /// No such platform.
    #[error("there is no platform {0:?}")]
    NoPlatform(String),
    /// It was taken away.
    #[error(
        "platform {0:?} was detached; put it into the configuration again, and have the manager read that"
    )]
    Detached(String),
    /// Pilots are there, or may come.
    #[error("platform {platform:?} still has {n_pilots} pilots there or asked for; drain it first")]
    InUse {
        /// Its name.
        platform: String,
        /// How many.
        n_pilots: usize,
    },
    /// Somebody else's job.
    #[error("job {job} belongs to {owner}, not to {caller}")]
    NotYours {
        /// The job.
        job: JobId,
        /// Whose it is.
        owner: String,
        /// Who asked.
        caller: String,
    },
    /// Nothing was learned of it.
    #[error("nothing is known of an application {0:?}")]
    NoProfile(String),
    /// A task would never begin there.
    #[error("a node of {0:?} has not the room or the time for a task")]
    NoRoom(String),
    /// Nothing is asked of it.
    #[error("platform {0:?} is paused, drained or detached; `pilotfish platform resume {0}` lets it go on")]
    Rests(String),
    /// Somebody else measures there.
    #[error("a profiling run of {user} is under way on {platform:?}; try it again when that is over")]
    Profiles {
        /// The platform.
        platform: String,
        /// Whose run it is.
        user: String,
    },
    /// Tasks cannot wait for each other so.
    #[error("{0}")]
    Unfit(EdgeProblem),
    /// Somebody else was sooner.
    #[error("somebody else has set policies meanwhile; look at them again")]
    PoliciesChanged,
    /// The job is in a state where that means nothing.
    #[error("job {job} is {state}, so it cannot be {wanted}")]
    WrongState {
        /// The job.
        job: JobId,
        /// Its state.
        state: &'static str,
        /// What was asked.
        wanted: &'static str,
    },
    /// Some jobs of a workflow that was submitted before are purged.
    #[error(
        "this was submitted before, and only some of its jobs are there still: purge job {0} and the others of them, too"
    )]
    KnownInPart(JobId),
    /// Another job needs it.
    #[error(
        "job {job} cannot be purged: job {by} takes from it or waits for it; purge that one first, or both at once"
    )]
    NeededBy {
        /// The job.
        job: JobId,
        /// The other one.
        by: JobId,
    },
    /// The tag belongs to no allocation that waits for a pilot.
    #[error("no allocation waits for a pilot with tag {0:?}")]
    NoAllocation(String),
    /// Its pilot came before, and is another one.
    #[error("the pilot of {0:?} has come; a join token serves once there")]
    JoinedBefore(String),
    /// Another pilot has come with that join token, and is there.
    #[error(
        "pilot {pilot} has come with the join token of {tag:?} and is not gone; another one may come when it has been \
         silent for its heartbeat limit, or from the folder of the first"
    )]
    StillThere {
        /// The allocation's tag.
        tag: String,
        /// The pilot.
        pilot: PilotId,
    },
    /// The pilot has left, or was given up since the session began.
    #[error("the session of pilot {0} has ended; register again")]
    SessionEnded(PilotId),
    /// It serves a later life of the manager.
    #[error("pilot {0} serves a later life of this manager")]
    OtherLife(PilotId),
    /// No such allocation.
    #[error("there is no allocation {0}")]
    UnknownAllocation(AllocationId),
    /// The allocation is over, or on its way there.
    #[error("allocation {0} is {1}, so it cannot be cancelled")]
    AllocationOver(AllocationId, &'static str),
    /// The manager is ending.
    #[error("the manager is shutting down")]
    ShuttingDown,
}

/// What whoever asked is told.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The platform is attached, or the one that was asked for.
    Attached(PlatformId),
    /// The job is kept; it had been submitted before when `is_repeat`.
    Submitted {
        /// Its number.
        job: JobId,
        /// Whether this submission was known.
        is_repeat: bool,
    },
    /// The stages are kept, under these numbers; they had been submitted before when `is_repeat`.
    WorkflowSubmitted {
        /// Their numbers, in the order in which they were given.
        jobs: Vec<JobId>,
        /// Whether this submission was known.
        is_repeat: bool,
    },
    /// What a user has of jobs.
    Holdings(Box<HoldingsView>),
    /// The change is made; so many tasks were concerned.
    Changed {
        /// Tasks cancelled or opened again.
        n_tasks: u64,
        /// Done tasks that ran without tasks which are open again, and what followed from them. They stay as they are.
        n_stale: u64,
    },
    /// What was said of tokens is kept, as of this time.
    TokensKept {
        /// When.
        at: Time,
    },
    /// The pilot is known from now on.
    Registered(Registered),
    /// For a pilot.
    Pull(PullAnswer),
    /// The pilot may go.
    Left,
    /// Another pilot is asked, if tasks wait at any.
    HuntPassedOn {
        /// Whether one is.
        is_any_asked: bool,
    },
    /// All pilots are gone. What may be left there beside what was cancelled.
    ShutDown(Vec<LeftThere>),
    /// Answers to queries.
    Status(Box<StatusView>),
    /// Jobs, oldest first.
    Jobs(Vec<JobView>),
    /// One job.
    Job(Box<JobView>),
    /// One task.
    Task(Box<TaskView>),
    /// Pilots by number.
    Pilots(Vec<PilotView>),
    /// Platforms by number.
    Platforms(Vec<PlatformView>),
    /// The name of a platform.
    PlatformName(String),
    /// The platform as it is now.
    PlatformChanged(Box<PlatformView>),
    /// Allocations by number.
    Allocations(Vec<AllocationView>),
    /// One allocation.
    Allocation(Box<AllocationView>),
    /// What was learned, by name of the application.
    Profiles(Vec<ProfileView>),
    /// The policies.
    Policies(Box<PoliciesView>),
    /// The weights.
    Weights(Box<WeightsView>),
    /// Reasons, the decisive one first.
    Reasons(Vec<Reason>),
    /// What a pilot may ask for.
    Session(Box<SessionView>),
    /// A job's spec.
    Spec(Arc<str>),
    /// Tasks.
    Tasks(TaskSet),
    /// Of each entry of `after`: whose tasks, and which.
    WaitedFor(Vec<(JobId, TaskSet)>),
    /// No.
    Refused(Refusal),
}

/// News for those who watch.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// A job's counts or state have changed.
    JobChanged(JobId),
    /// A job has no open task any more.
    JobEnded(JobId),
    /// A task failed; for good when `is_final`.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// Why.
        kind: FailureKind,
        /// Whether it will not be tried again.
        is_final: bool,
        /// Where.
        pilot: PilotId,
    },
    /// The records of so many acknowledged reports of this pilot are missing.
    ReportsForgotten {
        /// The pilot.
        pilot: PilotId,
        /// How many.
        n: u64,
    },
    /// A pilot says what cannot be; told once for each.
    PilotDoubted {
        /// The pilot.
        pilot: PilotId,
        /// What it has said.
        what: Doubt,
    },
    /// A second pilot comes with the join token of one that is there; told once for each.
    JoinedTwice {
        /// The one that is there.
        pilot: PilotId,
        /// Its allocation's tag.
        tag: String,
    },
    /// A platform refused an allocation, or one ended before its pilot came.
    PlatformFailed {
        /// The platform's name.
        platform: String,
        /// In its own words.
        what: String,
    },
    /// A platform says why an allocation waits, and somebody should do something about it.
    AllocationWaits {
        /// The platform's name.
        platform: String,
        /// Which.
        allocation: AllocationId,
        /// The platform's own id.
        batch_id: String,
        /// In the platform's words.
        reason: String,
        /// What can be done.
        advice: String,
        /// Whether it never begins by itself, as far as is known.
        is_endless: bool,
    },
    /// Allocations were asked of another adapter or another host than their platform has now.
    LeftBehind {
        /// The platform's name.
        platform: String,
        /// What it was, of the first of them.
        asked_of: String,
        /// What it is now.
        now: String,
        /// The ids of their batch jobs, or their names.
        batch_jobs: Vec<String>,
    },
    /// A core of a platform stands for more vCPUs than before, or fewer.
    PlatformScaled {
        /// The platform's name.
        platform: String,
        /// How many, and from which numbers.
        change: ScalingChange,
    },
    /// A cloud's hosts keep the vCPUs that they have: pilots offer more slots instead.
    ScalesItself {
        /// The platform's name.
        platform: String,
        /// Why, in the cloud's words.
        why: String,
    },
}

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
    /// Answer this, [`Question::answer`], beside all else; nothing waits for it.
    Guide(Box<Question>),
    /// Tell those who watch.
    Notify(Notice),
}

/// What one event led to: first the records are made durable, then the effects are performed.
#[must_use = "dropping a step loses records"]
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Step {
    /// What changed, in order. Already applied in memory.
    pub records: Vec<Record>,
    /// What to do, in order.
    pub effects: Vec<Effect>,
}
