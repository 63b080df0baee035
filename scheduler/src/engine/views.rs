//! What readers are shown. Made from the state, never kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    allocation::{Allocation, AllocationState},
    durable::{Durable, Job, Pilot},
    effort::moved_of,
    interface::{
        Answer, PlatformLimits, PlatformMode, PlatformSpec, Query, Refusal, ScalingSpec, ScalingWay,
        TaskFilter,
    },
    price::{Money, Price},
    queue_reasons::QueueReason,
    record::CancelCause,
    scaling::{Ratio, Scaled, ScalingChange},
    settings::Settings,
    volatile::Volatile,
};
use crate::{
    edges::Dependence,
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

/// Reads the state for one answer.
pub(super) struct Reader<'a> {
    pub(super) settings: &'a Settings,
    pub(super) durable: &'a Durable,
    pub(super) volatile: &'a Volatile,
    pub(super) now: Time,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        durable: &'a Durable,
        volatile: &'a Volatile,
        now: Time,
    ) -> Reader<'a> {
        Reader { settings, durable, volatile, now }
    }

    /// O(open jobs).
    fn holdings(&self, user: &str, key: Option<&str>) -> HoldingsView {
        let open = self.volatile.jobs.keys().filter_map(|id| self.durable.jobs().get(id));
        let mut held = HoldingsView {
            value_bytes: self.durable.spec_bytes_of(user),
            is_known: key.is_some_and(|key| self.durable.submission(key).is_some()),
            ..HoldingsView::default()
        };
        for job in open.filter(|job| job.request.user == user && job.ended_at.is_none()) {
            held.n_jobs += 1;
            held.n_tasks = held.n_tasks.saturating_add(job.open.len());
        }
        held
    }

    pub(super) fn answer(&self, query: Query) -> Result<Answer, Refusal> {
        Ok(match query {
            Query::Status => Answer::Status(Box::new(self.status())),
            Query::Jobs => {
                Answer::Jobs(self.durable.jobs().iter().map(|(id, job)| self.job(*id, job)).collect())
            }
            Query::Job(id) => Answer::Job(Box::new(self.job(id, self.known_job(id)?))),
            Query::Task(task) => Answer::Task(Box::new(self.task(task)?)),
            Query::Pilots { with_ended } => {
                let shown = self.durable.pilots().iter().filter(|(_, pilot)| with_ended || pilot.is_live());
                Answer::Pilots(shown.map(|(id, pilot)| self.pilot(*id, pilot)).collect())
            }
            Query::Platforms => Answer::Platforms(
                self.durable.platforms().keys().filter_map(|id| self.platform(*id)).collect(),
            ),
            Query::Allocations { with_ended } => {
                let shown = self.durable.allocations().iter().filter(|(_, a)| with_ended || a.may_be_there());
                Answer::Allocations(shown.map(|(id, held)| self.allocation(*id, held)).collect())
            }
            Query::Allocation(id) => {
                let held = self.durable.allocations().get(&id).ok_or(Refusal::UnknownAllocation(id))?;
                Answer::Allocation(Box::new(self.allocation(id, held)))
            }
            Query::Profiles => Answer::Profiles(self.profiles()),
            Query::Policies => Answer::Policies(Box::new(self.durable.policies_view(self.settings.policies))),
            Query::Weights => Answer::Weights(Box::new(self.weights())),
            Query::ExplainJob(id) => Answer::Reasons(self.explain_job(id, self.known_job(id)?)),
            Query::ExplainTask(task) => Answer::Reasons(self.explain_task(task)?),
            Query::ExplainPilot(id) => Answer::Reasons(self.explain_pilot(id)?),
            Query::ExplainWeight(name) => Answer::Reasons(self.explain_weight(&name)?),
            Query::ExplainAllocation(id) => Answer::Reasons(self.explain_allocation(id)?),
            Query::ExplainPlatform(name) => Answer::Reasons(self.explain_platform(&name)?),
            Query::Holdings { user, key } => Answer::Holdings(Box::new(self.holdings(&user, key.as_deref()))),
            Query::Spec(id) => Answer::Spec(self.known_job(id)?.request.spec.clone()),
            Query::Session(id, session) => Answer::Session(Box::new(self.session(id, session)?)),
            Query::PlatformOfPilot(id) => {
                let pilot = self.durable.pilots().get(&id).ok_or(Refusal::NoPilot(id))?;
                Answer::PlatformName(self.durable.platform_name(pilot.platform))
            }
            Query::PlatformOfTag(tag) => {
                let Some((_, held)) = self.durable.allocation_of(&tag) else {
                    return Err(Refusal::NoAllocation(tag));
                };
                Answer::PlatformName(self.durable.platform_name(held.platform))
            }
            Query::TasksIn(id, filter) => Answer::Tasks(self.tasks_in(id, self.known_job(id)?, filter)),
            Query::WaitedFor(task) => Answer::WaitedFor(self.waited_for(task)?),
        })
    }

    fn session(&self, id: PilotId, session: u64) -> Result<SessionView, Refusal> {
        let pilot = self.durable.pilots().get(&id).ok_or(Refusal::NoPilot(id))?;
        let state = self.volatile.pilots.get(&id).filter(|_| pilot.is_live() && pilot.session() == session);
        let (platform, state) = (pilot.platform, state.ok_or(Refusal::SessionEnded(id))?);
        let mut held = BTreeMap::<JobId, TaskSet>::new();
        for (job, tasks) in state.leases.iter().chain(&state.revoked) {
            held.entry(*job).or_default().insert_all(tasks);
        }
        let of_job = |(job, tasks)| {
            let request = &self.durable.jobs().get(&job)?.request;
            let after = request.after.iter().map(|dependence| dependence.on).collect();
            Some(SessionJob { job, user: request.user.clone(), tasks, staging: request.needs.staging, after })
        };
        let jobs = held.into_iter().filter_map(of_job).collect();
        Ok(SessionView { platform, is_in_step: state.is_synced, jobs })
    }

    pub(super) fn known_job(&self, id: JobId) -> Result<&'a Job, Refusal> {
        self.durable.jobs().get(&id).ok_or(Refusal::NoJob(id))
    }

    pub(super) fn counts(&self, id: JobId, job: &Job) -> Counts {
        let (n_leased, running) = self.volatile.jobs.get(&id).map_or((0, 0), |l| (l.n_leased, l.n_running));
        Counts {
            total: job.request.n_tasks,
            waiting: job.open.len().saturating_sub(n_leased),
            blocked: self.volatile.graph.n_blocked(id),
            queued: n_leased.saturating_sub(running),
            running,
            done: job.n_done(),
            failed: job.failed.len(),
            cancelled: job.cancelled.len(),
        }
    }

    fn job(&self, id: JobId, job: &Job) -> JobView {
        let mut moved = job.moved;
        moved.add(&moved_of(&self.volatile.moved, id));
        JobView {
            moved,
            id,
            name: job.request.name.clone(),
            user: job.request.user.clone(),
            application: job.request.application.clone(),
            state: job.state().to_owned(),
            priority: job.request.priority,
            priority_over_all: job.request.priority_over_all,
            counts: self.counts(id, job),
            submitted_at: job.submitted_at,
            first_result_at: job.first_result_at,
            ended_at: job.ended_at,
            now: self.now,
            wall_mean: job.totals.wall_mean(),
            wall_deviation: job.totals.wall_deviation(),
            wall_total: Span(job.totals.wall_us),
            cpu_total: Span(job.totals.cpu_us),
            memory_bytes_max: job.totals.memory_bytes_max,
            n_failed_attempts: job.n_failed_attempts,
            needs: job.request.needs.resources.clone(),
            cancel_cause: job.cancel_cause.as_ref().map(cancel_words),
            workflow: job.request.workflow,
            after: job.request.after.iter().map(|dependence| dependence.on).collect(),
            output_budget_spent: None,
            output_quota_spent: None,
            cut_outputs: None,
        }
    }

    /// The pilot that holds the task, and whether it is known to have begun there.
    pub(super) fn holder(&self, task: TaskId) -> Option<(PilotId, bool)> {
        let id = self.volatile.holder(task)?;
        let running = self.volatile.pilots.get(&id)?.running.get(&task.job);
        Some((id, running.is_some_and(|tasks| tasks.contains(task.index))))
    }

    pub(super) fn known_task(&self, task: TaskId) -> Result<&'a Job, Refusal> {
        let job = self.known_job(task.job)?;
        if task.index >= job.request.n_tasks {
            return Err(Refusal::NoTask(task, job.request.n_tasks));
        }
        Ok(job)
    }

    fn task(&self, task: TaskId) -> Result<TaskView, Refusal> {
        let job = self.known_task(task)?;
        let holder = self.holder(task);
        let state = match holder {
            _ if job.failed.contains(task.index) => TaskFilter::Failed,
            _ if job.cancelled.contains(task.index) => TaskFilter::Cancelled,
            _ if !job.open.contains(task.index) => TaskFilter::Done,
            Some((_, true)) => TaskFilter::Running,
            Some((_, false)) => TaskFilter::Queued,
            None => TaskFilter::Waiting,
        };
        let trouble = job.troubled.get(&task.index);
        Ok(TaskView {
            id: task,
            state,
            pilot: holder.map(|(pilot, _)| pilot),
            n_failed_attempts: trouble.map_or(0, |trouble| trouble.n_attempts()),
            last_failure: trouble.and_then(|trouble| trouble.last.clone()),
            retry_at: trouble.map(|trouble| trouble.retry_at).filter(|at| *at > self.now),
        })
    }

    /// Of each dependence of its job the tasks that this one comes after.
    fn waited_for(&self, task: TaskId) -> Result<Vec<(JobId, TaskSet)>, Refusal> {
        let one = TaskSet::from(task.index..task.index.saturating_add(1));
        let of = |dependence: &Dependence| {
            let n_on = self.durable.jobs().get(&dependence.on).map_or(0, |on| on.request.n_tasks);
            (dependence.on, dependence.edges.predecessors(&one, n_on))
        };
        Ok(self.known_task(task)?.request.after.iter().map(of).collect())
    }

    fn tasks_in(&self, id: JobId, job: &Job, filter: TaskFilter) -> TaskSet {
        let held = |running: bool| {
            let mut set = TaskSet::new();
            for pilot in self.volatile.pilots.values() {
                let running_here = pilot.running.get(&id).cloned().unwrap_or_default();
                match (running, pilot.leases.get(&id)) {
                    (true, _) => set.insert_all(&running_here),
                    (false, Some(leases)) => {
                        let mut queued = leases.clone();
                        queued.remove_all(&running_here);
                        set.insert_all(&queued);
                    }
                    (false, None) => {}
                }
            }
            set
        };
        let all = || TaskSet::from(0..job.request.n_tasks);
        match filter {
            TaskFilter::All => all(),
            TaskFilter::Running => held(true),
            TaskFilter::Queued => held(false),
            TaskFilter::Failed => job.failed.clone(),
            TaskFilter::Cancelled => job.cancelled.clone(),
            TaskFilter::Waiting => {
                let mut set = job.open.clone();
                set.remove_all(&held(true));
                set.remove_all(&held(false));
                set
            }
            TaskFilter::Done => {
                let mut set = all();
                for other in [&job.open, &job.failed, &job.cancelled] {
                    set.remove_all(other);
                }
                set
            }
        }
    }

    fn pilot(&self, id: PilotId, pilot: &Pilot) -> PilotView {
        let state = self.volatile.pilots.get(&id);
        let n_running = state.map_or(0, |state| state.running.values().map(TaskSet::len).sum());
        let n_leased = state.map_or(0, |state| state.n_leased());
        let word = match (&pilot.ended, &pilot.drain, state) {
            (Some(_), ..) => "ended",
            (None, ..) if self.volatile.suspended.contains_key(&pilot.allocation) => "suspended",
            (None, Some(_), _) => "draining",
            (None, None, Some(state)) if !state.is_synced => "awaited",
            (None, None, _) if n_leased == 0 => "idle",
            (None, None, _) => "working",
        };
        PilotView {
            id,
            platform: self
                .durable
                .platforms()
                .get(&pilot.platform)
                .map_or_else(String::new, |p| p.name.clone()),
            allocation: pilot.allocation,
            batch_id: self.durable.allocations().get(&pilot.allocation).and_then(|a| a.batch_id.clone()),
            state: word.to_owned(),
            why: pilot.ended.as_ref().map(|(_, why)| why.clone()),
            node: pilot.node.clone(),
            used: state.map_or_else(Resources::default, |state| state.used.clone()),
            n_running,
            n_queued: n_leased.saturating_sub(n_running),
            n_done: pilot.n_done,
            n_failed: pilot.n_failed,
            registered_at: pilot.registered_at,
            ended_at: pilot.ended.as_ref().map(|(at, _)| *at),
            silent_for: state.filter(|s| s.parked.is_none()).map(|state| self.now.since(state.last_heard)),
            walltime_left: pilot.walltime_end().map(|end| end.since(self.now)),
            error_rate: pilot.fortune.error_rate(),
            node_error_rate: self.durable.fortune_of_node(pilot).error_rate(),
        }
    }

    pub(super) fn platform(&self, id: PlatformId) -> Option<PlatformView> {
        let spec = self.durable.platforms().get(&id)?;
        let there = || self.durable.allocations_there(id).map(|(_, held)| held);
        let pilots = || self.durable.pilots().iter().filter(|(_, p)| p.platform == id && p.is_live());
        let used = pilots().filter_map(|(pilot, _)| self.volatile.pilots.get(pilot));
        let state = self.volatile.platforms.get(&id);
        let census = self.durable.census(id);
        let is_unknown = |a: &&Allocation| a.is_live() && matches!(a.state, AllocationState::Unknown(..));
        Some(PlatformView {
            name: spec.name.clone(),
            adapter: spec.adapter.clone(),
            capacity: spec.capacity.clone(),
            n_pilots: pilots().count() as u64,
            n_pilots_max: spec.n_pilots_max,
            n_nodes: spec.n_nodes,
            n_pilots_there: census.n_there as u64,
            n_allocations_waiting: there().filter(|held| held.is_live() && held.is_unused()).count() as u64,
            n_allocations_unknown: there().filter(is_unknown).count() as u64,
            used_cores: used.map(|state| u64::from(state.used.cores)).sum(),
            n_failures: state.map_or(0, |state| state.n_failures),
            last_failure: state.and_then(|state| {
                let unlisted = state.unlisted.as_ref().map(|unlisted| unlisted.what.clone());
                unlisted.or(state.last_failure.clone())
            }),
            waits_for_person: state.and_then(|state| state.waits_for_person.clone()),
            mode: self.durable.mode(id),
            is_attached: state.is_some_and(|state| state.is_attached),
            n_pilots_min: spec.n_pilots_min,
            walltime: spec.walltime,
            limits: spec.limits,
            n_queued: census.n_queued as u64,
            core_time_spent: census.spent(),
            core_time_committed: census.committed(),
            core_time_used: self.durable.used(id).cloned().unwrap_or_default(),
            shares: self.volatile.guide.shares_by_name(id),
            wait_mean: self.durable.waits(id).mean_s().map(Span::from_secs_f64),
            n_waits: self.durable.waits(id).n,
            scaling: self.scaling(id, spec),
            cost: spec.price.clone().map(|price| CostView {
                spent: price.of(census.spent()),
                committed: price.of(census.committed()),
                price,
            }),
            queue_reasons: self.queue_reasons(id),
        })
    }

    /// How it stands with its vCPUs, if it ever stood otherwise than one a core, or may.
    pub(super) fn scaling(&self, id: PlatformId, spec: &PlatformSpec) -> Option<ScalingView> {
        let scaled = self.durable.scaled(id);
        if spec.scaling.is_none() && scaled.is_none() {
            return None;
        }
        let Scaled { ratio, by, changes, .. } = scaled.cloned().unwrap_or_default();
        let trouble = self.volatile.platforms.get(&id).and_then(|state| state.watch.trouble.clone());
        let by = if changes.is_empty() { spec.scaling.map_or(by, |wanted| wanted.by) } else { by };
        Some(ScalingView { wanted: spec.scaling, ratio, by, trouble, changes })
    }

    pub(super) fn allocation(&self, id: AllocationId, held: &Allocation) -> AllocationView {
        let why = match &held.state {
            AllocationState::Leaving(why, _) | AllocationState::Ended(why) => Some(why.clone()),
            AllocationState::Unknown(what, _) => Some(what.clone()),
            AllocationState::Submitted if self.volatile.suspended.contains_key(&id) => {
                Some("its batch system has suspended it: its pilot stands still until it is resumed".into())
            }
            AllocationState::Submitted if self.volatile.unlisted.contains(&id) => {
                Some("its platform does not list it, but its pilot speaks".into())
            }
            AllocationState::Intended | AllocationState::Submitted => {
                self.volatile.queue_reason(id, held).map(QueueReason::told_shortly)
            }
        };
        let queue_reason = self.volatile.queue_reason(id, held).map(|reason| QueueReasonView {
            reason: reason.words.clone(),
            advice: reason.advice().map(str::to_owned),
            n_allocations: 1,
            since: reason.since,
        });
        let live = self.durable.live_pilots(held);
        let first = held.came.first().and_then(|pilot| self.durable.pilots().get(pilot));
        AllocationView {
            id,
            platform: self
                .durable
                .platforms()
                .get(&held.platform)
                .map_or_else(String::new, |p| p.name.clone()),
            tag: held.tag.clone(),
            batch_id: held.batch_id.clone(),
            state: match self.volatile.suspended.contains_key(&id) && held.state == AllocationState::Submitted
            {
                true => "suspended".to_owned(),
                false => held.state_word().to_owned(),
            },
            why: match (why, self.forsaken_words(held)) {
                (Some(why), Some(words)) => Some(format!("{why}; {words}")),
                (why, words) => why.or(words),
            },
            pilots: if live.is_empty() { held.came.clone() } else { live },
            n_nodes: held.n_nodes,
            cores: held.cores,
            walltime: held.walltime,
            asked_for_at: held.intended_at,
            accepted_at: held.submitted_at,
            pilot_at: first.map(|pilot| pilot.registered_at),
            ended_at: held.ended_at,
            core_time: held.core_time(),
            queue_reason,
        }
    }

    fn status(&self) -> StatusView {
        let mut status =
            StatusView { now: self.now, n_results_refused: self.volatile.n_refused, ..StatusView::default() };
        for (id, job) in self.durable.jobs() {
            match (job.ended_at.is_some(), job.is_paused) {
                (true, _) => status.n_jobs_over += 1,
                (false, true) => status.n_jobs_paused += 1,
                (false, false) => status.n_jobs_active += 1,
            }
            let (counts, sums) = (self.counts(*id, job), &mut status.counts);
            for (sum, n) in [
                (&mut sums.total, counts.total),
                (&mut sums.waiting, counts.waiting),
                (&mut sums.queued, counts.queued),
                (&mut sums.running, counts.running),
                (&mut sums.done, counts.done),
                (&mut sums.failed, counts.failed),
                (&mut sums.cancelled, counts.cancelled),
            ] {
                *sum = sum.saturating_add(n);
            }
        }
        for (id, state) in &self.volatile.pilots {
            status.n_pilots += 1;
            status.used_cores += u64::from(state.used.cores);
            status.cores += self.durable.pilots().get(id).map_or(0, |p| u64::from(p.node.capacity.cores));
        }
        let platforms = self.volatile.platforms.iter().filter(|(_, state)| state.waits_for_person.is_some());
        let names = platforms.filter_map(|(id, _)| Some(self.durable.platforms().get(id)?.name.clone()));
        status.waiting_for_person = names.collect();
        status.fairness = self.fairness();
        status.is_shutting_down = self.volatile.shutdown.is_some();
        status.in_grace = self.volatile.is_in_grace().then(|| self.volatile.grace_until.since(self.now));
        status
    }
}

/// A cancellation's cause in words.
pub(super) fn cancel_words(cause: &CancelCause) -> String {
    match cause {
        CancelCause::User(user) => format!("by {user}"),
        CancelCause::MaxFailures { n_failed, limit } => {
            format!("{n_failed} tasks had failed, and the job allows {limit} (max_failures)")
        }
        CancelCause::Dependency(task) => format!("it waited for task {task}, which failed or was cancelled"),
    }
}
