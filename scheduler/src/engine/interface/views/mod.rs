//! Jobs, tasks, pilots, allocations and platforms, as readers see them.

pub mod policies;
pub mod profile;
pub mod weights;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    engine::interface::{
        platform::{
            platform_spec::{PlatformLimits, PlatformMode},
            price::{Money, Price},
            scaling::{Ratio, ScalingChange, ScalingSpec, ScalingWay},
        },
        query::TaskFilter,
    },
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    pull::{MovedBytes, NodeFacts, Staging},
    ranges::TaskSet,
    resources::Resources,
    results::FailureKind,
    time::{Span, Time},
};

/// How many tasks of a job are in which state. They add up to `total`, without `blocked`, which is a part of `waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct Counts {
    pub total: u64,
    pub waiting: u64,
    /// Of those that wait, how many do for other tasks.
    #[serde(default)]
    pub blocked: u64,
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
}

/// What a user has of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HoldingsView {
    /// Jobs that have not ended.
    pub n_jobs: u64,
    /// Tasks of them that have not ended.
    pub n_tasks: u64,
    /// Bytes of the descriptions of all the user's jobs, of those that have ended too: they stay in memory.
    pub value_bytes: u64,
    /// Whether the submission that was asked about is kept.
    pub is_known: bool,
}

/// A job as readers see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct JobView {
    pub id: JobId,
    pub name: String,
    pub user: String,
    pub application: String,
    pub state: String,
    pub priority: i32,
    /// Whether its priority counts among the jobs of all users.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub priority_over_all: bool,
    pub counts: Counts,
    pub submitted_at: Time,
    pub first_result_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub now: Time,
    pub wall_mean: Option<Span>,
    pub wall_deviation: Option<Span>,
    pub wall_total: Span,
    pub cpu_total: Span,
    pub memory_bytes_max: u64,
    pub n_failed_attempts: u64,
    pub needs: Resources,
    pub cancel_cause: Option<String>,
    /// The first job of the workflow of which it is a stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<JobId>,
    /// Bytes of files that have moved for its tasks.
    #[serde(default, skip_serializing_if = "MovedBytes::is_none")]
    pub moved: MovedBytes,
    /// The jobs whose tasks its own wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<JobId>,
    /// Its budget for output, in bytes, if that is used up. Said of one job by whoever reads the store too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_budget_spent: Option<u64>,
    /// The quota of output of its user in bytes, if that is used up: nothing more is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_quota_spent: Option<u64>,
    /// Of how many tasks not all output is kept from which values are extracted. Said like its budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_outputs: Option<CutOutputs>,
}

/// Tasks that wrote more than is kept, in a job that extracts values from what they write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutOutputs {
    /// How many; of very many a lower bound.
    pub n_tasks: u64,
    /// How much is kept of each, in bytes.
    pub limit_bytes: u64,
}

/// A task as readers see it. What finished attempts used is in the store.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct TaskView {
    pub id: TaskId,
    pub state: TaskFilter,
    pub pilot: Option<PilotId>,
    pub n_failed_attempts: u32,
    pub last_failure: Option<FailureKind>,
    pub retry_at: Option<Time>,
}

/// A pilot as readers see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct PilotView {
    pub id: PilotId,
    pub platform: String,
    pub allocation: AllocationId,
    pub batch_id: Option<String>,
    pub state: String,
    pub why: Option<String>,
    pub node: NodeFacts,
    pub used: Resources,
    pub n_running: u64,
    pub n_queued: u64,
    pub n_done: u64,
    pub n_failed: u64,
    pub registered_at: Time,
    pub ended_at: Option<Time>,
    pub silent_for: Option<Span>,
    pub walltime_left: Option<Span>,
    /// The part of its last attempts that failed, 0 to 1; none before the first.
    #[serde(default)]
    pub error_rate: Option<f64>,
    /// The same of its node, whichever pilot ran them.
    #[serde(default)]
    pub node_error_rate: Option<f64>,
}

/// An allocation as readers see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct AllocationView {
    pub id: AllocationId,
    pub platform: String,
    pub tag: String,
    pub batch_id: Option<String>,
    pub state: String,
    pub why: Option<String>,
    /// Those that are there; once none is, all that came.
    pub pilots: Vec<PilotId>,
    pub n_nodes: u32,
    pub cores: u32,
    pub walltime: Option<Span>,
    pub asked_for_at: Time,
    pub accepted_at: Option<Time>,
    pub pilot_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub core_time: Span,
    /// Why it waits, in its platform's words, and what can be done about it where it does not begin by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_reason: Option<QueueReasonView>,
}

/// Why allocations wait, as their platform says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueReasonView {
    /// In its words.
    pub reason: String,
    /// What can be done; nothing where it begins by itself.
    pub advice: Option<String>,
    /// How many allocations wait so.
    pub n_allocations: u64,
    /// Since when the platform says so, of the first.
    pub since: Time,
}

/// A platform as readers see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct PlatformView {
    pub name: String,
    pub adapter: String,
    pub capacity: Resources,
    pub n_pilots: u64,
    pub n_pilots_max: u32,
    pub n_nodes: u32,
    pub n_pilots_there: u64,
    pub n_allocations_waiting: u64,
    pub n_allocations_unknown: u64,
    pub used_cores: u64,
    pub n_failures: u32,
    pub last_failure: Option<String>,
    /// Why its connection waits for a person, who opens it by `pilotfish platform login`; nothing where it does not.
    #[serde(default)]
    pub waits_for_person: Option<String>,
    pub mode: PlatformMode,
    pub is_attached: bool,
    pub n_pilots_min: u32,
    pub walltime: Option<Span>,
    pub limits: PlatformLimits,
    pub n_queued: u64,
    pub core_time_spent: Span,
    pub core_time_committed: Span,
    /// What tasks took there, by user.
    pub core_time_used: BTreeMap<String, Span>,
    /// Cores that are meant for each user with open tasks, where a policy says so.
    #[serde(default)]
    pub shares: BTreeMap<String, u64>,
    /// How long allocations of its shape wait for their first pilot, the last ones more than those before.
    #[serde(default)]
    pub wait_mean: Option<Span>,
    /// How many allocations that is of.
    #[serde(default)]
    pub n_waits: u64,
    /// How its cores may stand for more vCPUs than one each.
    #[serde(default)]
    pub scaling: Option<ScalingView>,
    /// What it costs, if that is known.
    #[serde(default)]
    pub cost: Option<CostView>,
    /// Why its allocations wait, as it says; those with something to be done first.
    #[serde(default)]
    pub queue_reasons: Vec<QueueReasonView>,
}

/// What a platform costs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page; all but the price in millionths of its currency.
pub struct CostView {
    pub price: Price,
    pub spent: Money,
    pub committed: Money,
}

impl PlatformView {
    /// What each of its pilots offers to tasks that take a core.
    pub fn slots(&self) -> u32 {
        let by_slots = self.scaling.as_ref().filter(|scaling| scaling.by == ScalingWay::Slots);
        by_slots.map_or(self.capacity.cores, |scaling| scaling.ratio.of_cores(self.capacity.cores))
    }
}

/// How it stands with a platform's vCPUs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct ScalingView {
    /// What the operator wants.
    pub wanted: Option<ScalingSpec>,
    /// vCPUs of a core, in thousandths.
    pub ratio: Ratio,
    pub by: ScalingWay,
    /// What is wrong with it.
    pub trouble: Option<String>,
    /// The last changes, oldest first.
    pub changes: Vec<ScalingChange>,
}

/// Totals of everything.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct StatusView {
    pub now: Time,
    pub n_jobs_active: u64,
    pub n_jobs_paused: u64,
    pub n_jobs_over: u64,
    pub counts: Counts,
    pub n_pilots: u64,
    pub cores: u64,
    pub used_cores: u64,
    pub is_shutting_down: bool,
    pub in_grace: Option<Span>,
    /// How evenly users with open tasks are served, at most 1; nothing where there are fewer than two.
    pub fairness: Option<f64>,
    /// Platforms whose connections wait for a person.
    #[serde(default)]
    pub waiting_for_person: Vec<String>,
    /// Results that were refused since the start, because their pilots were not leased the tasks.
    #[serde(default)]
    pub n_results_refused: u64,
}

/// What a pilot may ask for, beside its pulls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionView {
    /// Its platform.
    pub platform: PlatformId,
    /// Whether it has said what it holds; else its leases are not known.
    pub is_in_step: bool,
    /// The tasks that it was leased, and those that were taken from it and it has not answered for.
    pub jobs: Vec<SessionJob>,
}

/// A job of which a pilot has tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionJob {
    /// Which.
    pub job: JobId,
    /// Whose it is.
    pub user: String,
    /// Its tasks there.
    pub tasks: TaskSet,
    /// Which files come and go with them.
    pub staging: Staging,
    /// The jobs that it comes after.
    pub after: Vec<JobId>,
}

impl SessionView {
    /// The tasks of a job; `None`: there are none.
    pub fn tasks(&self, job: JobId) -> Option<&TaskSet> {
        self.jobs.iter().find(|held| held.job == job).map(|held| &held.tasks)
    }
}
