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

/// Numbers of a job's tasks by state. They add up to `total`, without `blocked`, which is part of `waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct Counts {
    pub total: u64,
    pub waiting: u64,
    /// Number of waiting tasks that wait for other tasks.
    #[serde(default)]
    pub blocked: u64,
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
}

/// The jobs, tasks and bytes that a user has in the manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HoldingsView {
    /// Number of jobs that have not ended.
    pub n_jobs: u64,
    /// Number of tasks of these jobs that have not ended.
    pub n_tasks: u64,
    /// Bytes of the descriptions of all the user's jobs, including the ended ones: they stay in memory.
    pub value_bytes: u64,
    /// Whether the submission in question is known.
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
    /// Whether the priority counts among the jobs of all users.
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
    /// The first job of the workflow that the job is a stage of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<JobId>,
    /// Bytes of files that have moved for its tasks.
    #[serde(default, skip_serializing_if = "MovedBytes::is_none")]
    pub moved: MovedBytes,
    /// The jobs that the job's tasks wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<JobId>,
    /// The job's output limit in bytes, if it is used up. Set only in views of one job that read the store,
    /// too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_budget_spent: Option<u64>,
    /// The user's output quota in bytes, if it is used up: no more output is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_quota_spent: Option<u64>,
    /// The tasks whose output was cut although values are extracted from it. Set like `output_budget_spent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_outputs: Option<CutOutputs>,
}

/// Tasks that wrote more output than is kept, in a job that extracts values from output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutOutputs {
    /// Number of tasks; a lower bound if there are very many.
    pub n_tasks: u64,
    /// Bytes of output that are kept of each task.
    pub limit_bytes: u64,
}

/// A task as readers see it. The resources that ended attempts used are in the store.
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
    /// The part of the pilot's last attempts that failed, 0 to 1; null before the first.
    #[serde(default)]
    pub error_rate: Option<f64>,
    /// The part of the last attempts on its node that failed, by all pilots, 0 to 1.
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
    /// The live pilots; if there is none, all that have registered.
    pub pilots: Vec<PilotId>,
    pub n_nodes: u32,
    pub cores: u32,
    pub walltime: Option<Span>,
    pub asked_for_at: Time,
    pub accepted_at: Option<Time>,
    pub pilot_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub core_time: Span,
    /// The reason why the allocation waits, in the platform's words, and advice if it does not start by
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_reason: Option<QueueReasonView>,
}

/// The reason why allocations wait, as their platform reports it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueReasonView {
    /// The reason, in the platform's words.
    pub reason: String,
    /// The advice on what can be done; null if the allocations start by themselves.
    pub advice: Option<String>,
    /// Number of allocations that wait for this reason.
    pub n_allocations: u64,
    /// The time since when the first of them waits for this reason.
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
    /// The reason why the connection waits for a person to run `pilotfish platform login`; null if it does
    /// not.
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
    /// The core-time that tasks used there, by user.
    pub core_time_used: BTreeMap<String, Span>,
    /// The fair share in cores of each user with open tasks, if the policy has fair shares.
    #[serde(default)]
    pub shares: BTreeMap<String, u64>,
    /// The mean queue wait of allocations of this shape; recent ones count more.
    #[serde(default)]
    pub wait_mean: Option<Span>,
    /// Number of allocations behind `wait_mean`.
    #[serde(default)]
    pub n_waits: u64,
    /// The vCPU ratio and its settings.
    #[serde(default)]
    pub scaling: Option<ScalingView>,
    /// The cost of the platform, if its price is known.
    #[serde(default)]
    pub cost: Option<CostView>,
    /// The reasons why allocations wait, as the platform reports them; those with advice come first.
    #[serde(default)]
    pub queue_reasons: Vec<QueueReasonView>,
}

/// The cost of a platform.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page; all but the price in millionths of its currency.
pub struct CostView {
    pub price: Price,
    pub spent: Money,
    pub committed: Money,
}

impl PlatformView {
    /// Returns the number of slots of each pilot, for tasks that need one core.
    pub fn slots(&self) -> u32 {
        let by_slots = self.scaling.as_ref().filter(|scaling| scaling.by == ScalingWay::Slots);
        by_slots.map_or(self.capacity.cores, |scaling| scaling.ratio.of_cores(self.capacity.cores))
    }
}

/// The state of a platform's vCPU ratio.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs)] // The words of the design page.
pub struct ScalingView {
    /// The operator's settings.
    pub wanted: Option<ScalingSpec>,
    /// The vCPU ratio, in thousandths.
    pub ratio: Ratio,
    pub by: ScalingWay,
    /// The problem with applying the ratio.
    pub trouble: Option<String>,
    /// The last changes, oldest first.
    pub changes: Vec<ScalingChange>,
}

/// The totals of the manager.
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
    /// The fairness among users with open tasks, at most 1; null if there are fewer than two such users.
    pub fairness: Option<f64>,
    /// Platforms whose connections wait for a person.
    #[serde(default)]
    pub waiting_for_person: Vec<String>,
    /// Number of results since the start that were refused because their pilots had no lease of the tasks.
    #[serde(default)]
    pub n_results_refused: u64,
}

/// The data that a pilot may access, beside its pulls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionView {
    /// The pilot's platform.
    pub platform: PlatformId,
    /// Whether the pilot has said which tasks it holds; before that, its leases are unknown.
    pub is_in_step: bool,
    /// The tasks that are leased to the pilot, and those that were revoked without its confirmation yet.
    pub jobs: Vec<SessionJob>,
}

/// A job that a pilot has tasks of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionJob {
    /// The job.
    pub job: JobId,
    /// The user that the job belongs to.
    pub user: String,
    /// The job's tasks on the pilot.
    pub tasks: TaskSet,
    /// The files to stage in and stage out.
    pub staging: Staging,
    /// The jobs that this job depends on.
    pub after: Vec<JobId>,
}

impl SessionView {
    /// Returns the pilot's tasks of a job; `None`: there are none.
    pub fn tasks(&self, job: JobId) -> Option<&TaskSet> {
        self.jobs.iter().find(|held| held.job == job).map(|held| &held.tasks)
    }
}
