//! Views of the state for readers. They are made for each query and never kept.

use std::collections::BTreeMap;

use crate::{
    edges::Dependence,
    engine::{
        interface::{
            answer::Answer,
            platform::platform_spec::PlatformSpec,
            query::{Query, TaskFilter},
            refusal::Refusal,
            settings::Settings,
            views::{
                AllocationView, CostView, Counts, HoldingsView, JobView, PilotView, PlatformView,
                QueueReasonView, ScalingView, SessionJob, SessionView, StatusView, TaskView,
            },
        },
        live::{Live, platform::queue_reasons::QueueReason, resource_use::moved_of},
        record::CancelCause,
        state::{
            allocation::{Allocation, AllocationState},
            durable::Durable,
            job::Job,
            pilot::Pilot,
            vcpu_ratio::Scaled,
        },
    },
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    ranges::TaskSet,
    resources::Resources,
    time::{Span, Time},
};

/// Reads the state for one answer.
pub(in crate::engine) struct Reader<'a> {
    pub(in crate::engine) settings: &'a Settings,
    pub(in crate::engine) durable: &'a Durable,
    pub(in crate::engine) live: &'a Live,
    pub(in crate::engine) now: Time,
}

impl<'a> Reader<'a> {
    pub(in crate::engine) fn new(
        settings: &'a Settings,
        durable: &'a Durable,
        live: &'a Live,
        now: Time,
    ) -> Reader<'a> {
        Reader { settings, durable, live, now }
    }

    /// Returns the open jobs and tasks of a user, and the bytes of the job descriptions. O(open jobs).
    fn holdings(&self, user: &str, key: Option<&str>) -> HoldingsView {
        let open = self.live.jobs.keys().filter_map(|id| self.durable.jobs().get(id));
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

    pub(in crate::engine) fn answer(&self, query: Query) -> Result<Answer, Refusal> {
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
        let state = self.live.pilots.get(&id).filter(|_| pilot.is_live() && pilot.session() == session);
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

    pub(in crate::engine) fn known_job(&self, id: JobId) -> Result<&'a Job, Refusal> {
        self.durable.jobs().get(&id).ok_or(Refusal::NoJob(id))
    }

    pub(in crate::engine) fn counts(&self, id: JobId, job: &Job) -> Counts {
        let (n_leased, running) = self.live.jobs.get(&id).map_or((0, 0), |l| (l.n_leased, l.n_running));
        Counts {
            total: job.request.n_tasks,
            waiting: job.open.len().saturating_sub(n_leased),
            blocked: self.live.graph.n_blocked(id),
            queued: n_leased.saturating_sub(running),
            running,
            done: job.n_done(),
            failed: job.failed.len(),
            cancelled: job.cancelled.len(),
        }
    }

    fn job(&self, id: JobId, job: &Job) -> JobView {
        let mut moved = job.moved;
        moved.add(&moved_of(&self.live.moved, id));
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

    /// Returns the pilot that holds the task, and whether the task is known to have started there.
    pub(in crate::engine) fn holder(&self, task: TaskId) -> Option<(PilotId, bool)> {
        let id = self.live.holder(task)?;
        let running = self.live.pilots.get(&id)?.running.get(&task.job);
        Some((id, running.is_some_and(|tasks| tasks.contains(task.index))))
    }

    pub(in crate::engine) fn known_task(&self, task: TaskId) -> Result<&'a Job, Refusal> {
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

    /// Returns the tasks that this one comes after, by dependency of its job.
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
            for pilot in self.live.pilots.values() {
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
        let state = self.live.pilots.get(&id);
        let n_running = state.map_or(0, |state| state.running.values().map(TaskSet::len).sum());
        let n_leased = state.map_or(0, |state| state.n_leased());
        let word = match (&pilot.ended, &pilot.drain, state) {
            (Some(_), ..) => "ended",
            (None, ..) if self.live.suspended.contains_key(&pilot.allocation) => "suspended",
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

    pub(in crate::engine) fn platform(&self, id: PlatformId) -> Option<PlatformView> {
        let spec = self.durable.platforms().get(&id)?;
        let there = || self.durable.allocations_there(id).map(|(_, held)| held);
        let pilots = || self.durable.pilots().iter().filter(|(_, p)| p.platform == id && p.is_live());
        let used = pilots().filter_map(|(pilot, _)| self.live.pilots.get(pilot));
        let state = self.live.platforms.get(&id);
        let allocation_counts = self.durable.allocation_counts(id);
        let is_unknown = |a: &&Allocation| a.is_live() && matches!(a.state, AllocationState::Unknown(..));
        Some(PlatformView {
            name: spec.name.clone(),
            adapter: spec.adapter.clone(),
            capacity: spec.capacity.clone(),
            n_pilots: pilots().count() as u64,
            n_pilots_max: spec.n_pilots_max,
            n_nodes: spec.n_nodes,
            n_pilots_there: allocation_counts.n_there as u64,
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
            n_queued: allocation_counts.n_queued as u64,
            core_time_spent: allocation_counts.spent(),
            core_time_committed: allocation_counts.committed(),
            core_time_used: self.durable.used(id).cloned().unwrap_or_default(),
            shares: self.live.plan.shares_by_name(id),
            wait_mean: self.durable.waits(id).mean_s().map(Span::from_secs_f64),
            n_waits: self.durable.waits(id).n,
            scaling: self.scaling(id, spec),
            cost: spec.price.clone().map(|price| CostView {
                spent: price.of(allocation_counts.spent()),
                committed: price.of(allocation_counts.committed()),
                price,
            }),
            queue_reasons: self.queue_reasons(id),
        })
    }

    /// Returns the state of the platform's vCPU ratio, if scaling is or was configured.
    pub(in crate::engine) fn scaling(&self, id: PlatformId, spec: &PlatformSpec) -> Option<ScalingView> {
        let scaled = self.durable.scaled(id);
        if spec.scaling.is_none() && scaled.is_none() {
            return None;
        }
        let Scaled { ratio, by, changes, .. } = scaled.cloned().unwrap_or_default();
        let trouble = self.live.platforms.get(&id).and_then(|state| state.watch.trouble.clone());
        let by = if changes.is_empty() { spec.scaling.map_or(by, |wanted| wanted.by) } else { by };
        Some(ScalingView { wanted: spec.scaling, ratio, by, trouble, changes })
    }

    pub(in crate::engine) fn allocation(&self, id: AllocationId, held: &Allocation) -> AllocationView {
        let why = match &held.state {
            AllocationState::Leaving(why, _) | AllocationState::Ended(why) => Some(why.clone()),
            AllocationState::Unknown(what, _) => Some(what.clone()),
            AllocationState::Submitted if self.live.suspended.contains_key(&id) => {
                Some("its batch system has suspended it: its pilot stands still until it is resumed".into())
            }
            AllocationState::Submitted if self.live.unlisted.contains(&id) => {
                Some("its platform does not list it, but its pilot speaks".into())
            }
            AllocationState::Intended | AllocationState::Submitted => {
                self.live.queue_reason(id, held).map(QueueReason::told_shortly)
            }
        };
        let queue_reason = self.live.queue_reason(id, held).map(|reason| QueueReasonView {
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
            state: match self.live.suspended.contains_key(&id) && held.state == AllocationState::Submitted {
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
            StatusView { now: self.now, n_results_refused: self.live.n_refused, ..StatusView::default() };
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
        for (id, state) in &self.live.pilots {
            status.n_pilots += 1;
            status.used_cores += u64::from(state.used.cores);
            status.cores += self.durable.pilots().get(id).map_or(0, |p| u64::from(p.node.capacity.cores));
        }
        let platforms = self.live.platforms.iter().filter(|(_, state)| state.waits_for_person.is_some());
        let names = platforms.filter_map(|(id, _)| Some(self.durable.platforms().get(id)?.name.clone()));
        status.waiting_for_person = names.collect();
        status.fairness = self.fairness();
        status.is_shutting_down = self.live.shutdown.is_some();
        status.in_grace = self.live.is_in_grace().then(|| self.live.grace_until.since(self.now));
        status
    }
}

/// Returns a cancellation's cause in words.
pub(in crate::engine) fn cancel_words(cause: &CancelCause) -> String {
    match cause {
        CancelCause::User(user) => format!("by {user}"),
        CancelCause::MaxFailures { n_failed, limit } => {
            format!("{n_failed} tasks had failed, and the job allows {limit} (max_failures)")
        }
        CancelCause::Dependency(task) => format!("it waited for task {task}, which failed or was cancelled"),
    }
}
