//! The state that survives a restart. Its fields are private to this file: `apply` is the only writer, in
//! operation and on restart, so there is only one state machine.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use crate::{
    engine::{
        interface::{
            declared_profile::Declared,
            job_request::JobRequest,
            platform::{
                platform_spec::{PlatformMode, PlatformSpec},
                scaling::Ratio,
                shape::Shape,
            },
            views::policies::{PoliciesView, PolicyChange},
        },
        record::{Blamed, DrainCause, FailedAttempt, JobResult, Record},
        state::{
            allocation::{Allocation, AllocationCounts, AllocationState, Origin},
            asked::Asked,
            ends::{Alike, Ends, N_FOR_ONE_MAX},
            failing::{N_NODES, is_of_place},
            job::Job,
            learned::{
                applications::{Applications, Learned},
                interference::Interference,
                queue_wait::Waits,
            },
            pilot::Pilot,
            places::{Fortune, NodeId, Nodes, Place},
            policies,
            vcpu_ratio::Scaled,
            weight_log::WeightLog,
        },
    },
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    policy::Policies,
    resources::Resources,
    results::FailureKind,
    time::{Span, Time},
};

/// A batch job that ends this shortly before its walltime, or in its last tenth, has reached its walltime.
const LAST_MINUTE: Span = Span::from_secs(60);

/// The time for which an early end that no task caused reduces the weight of later ends on its platform.
const INNOCENT_ENDS_COUNT: Span = Span::from_secs(24 * 3600);

/// The jobs, platforms, allocations and pilots that follow from the records.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Durable {
    jobs: BTreeMap<JobId, Job>,
    /// The highest id that a job has had.
    last_job: u64,
    /// Bytes of the descriptions of each user's jobs.
    spec_bytes: BTreeMap<String, u64>,
    facts: Applications,
    modes: BTreeMap<PlatformId, PlatformMode>,
    allocations: BTreeMap<AllocationId, Allocation>,
    pilots: BTreeMap<PilotId, Pilot>,
    nodes: Nodes,
    /// The times at which it became known that none of the running tasks had caused the early end of a batch
    /// job.
    innocent_ends: BTreeMap<PlatformId, VecDeque<Time>>,
    /// The last ends of batch jobs while tasks ran.
    ends: BTreeMap<PlatformId, Ends>,
    submissions: BTreeMap<String, JobId>,
    tags: BTreeMap<String, AllocationId>,
    /// Allocations that their platforms may still have.
    there: BTreeSet<(PlatformId, AllocationId)>,
    allocation_counts: BTreeMap<PlatformId, AllocationCounts>,
    /// Cores × time that tasks used there, by user.
    used: BTreeMap<PlatformId, BTreeMap<String, Span>>,
    /// The queue waits of a platform's allocations, by shape.
    waits: BTreeMap<(PlatformId, Shape), Waits>,
    policy_changes: Vec<PolicyChange>,
    weights: WeightLog,
    /// The times at which each platform was asked for allocations.
    asked: BTreeMap<PlatformId, Asked>,
    /// The vCPU ratios of platforms for which it was ever changed.
    scaled: BTreeMap<PlatformId, Scaled>,
}

impl Durable {
    /// Returns the cores × time that tasks used on a platform, by user.
    pub fn used(&self, platform: PlatformId) -> Option<&BTreeMap<String, Span>> {
        self.used.get(&platform)
    }

    /// Returns the name of a platform.
    pub fn platform_name(&self, id: PlatformId) -> String {
        self.platforms().get(&id).map_or_else(String::new, |spec| spec.name.clone())
    }

    /// Returns the times at which the platform was asked for allocations.
    pub fn asked(&self, platform: PlatformId) -> Option<&Asked> {
        self.asked.get(&platform)
    }

    /// Returns the allocation's pilots that have neither left nor been lost, in the order of their
    /// registration.
    pub fn live_pilots(&self, held: &Allocation) -> Vec<PilotId> {
        let is_live = |id: &PilotId| self.pilots.get(id).is_some_and(Pilot::is_live);
        held.came.iter().copied().filter(is_live).collect()
    }

    /// Returns the newest allocation that the platform may still have.
    pub fn newest_allocation_there(&self, id: PlatformId) -> Option<&Allocation> {
        let ours = self.there.range((id, AllocationId(0))..=(id, AllocationId(u64::MAX)));
        ours.rev().find_map(|(_, id)| self.allocations.get(id))
    }

    /// Returns the outcomes of attempts on a pilot's node, by all pilots.
    pub fn fortune_of_node(&self, pilot: &Pilot) -> Fortune {
        self.nodes.fortune(pilot.node_id)
    }

    /// Returns the number of batch jobs that must end with a task to count as one lost pilot at that time:
    /// more on a platform that has often ended batch jobs for its own reasons within the last day.
    pub fn ends_for_one(&self, platform: PlatformId, at: Time) -> u32 {
        let of_late = |known_at: &&Time| at.since(**known_at) <= INNOCENT_ENDS_COUNT;
        let n = self.innocent_ends.get(&platform).map_or(0, |ends| ends.iter().filter(of_late).count());
        1 + u32::try_from(n).unwrap_or(u32::MAX).min(N_FOR_ONE_MAX - 1)
    }

    /// Returns the last ends of the platform's batch jobs while tasks ran.
    pub(in crate::engine) fn ends_of(&self, platform: PlatformId) -> Option<&Ends> {
        self.ends.get(&platform)
    }

    pub(in crate::engine) fn ends_mut(&mut self, platform: PlatformId) -> &mut Ends {
        self.ends.entry(platform).or_default()
    }

    /// Returns whether a task may have caused the end of a pilot's batch job at that time: the manager did
    /// not ask for it, and the walltime was not over.
    pub fn ended_early(&self, id: PilotId, at: Time) -> bool {
        let Some(pilot) = self.pilots.get(&id) else { return false };
        let is_wanted = self.allocations.get(&pilot.allocation).is_some_and(Allocation::is_live);
        let is_over = |end: Time| {
            let life = end.since(pilot.born_at);
            at + Span(life.0 / 10).min(LAST_MINUTE) >= end
        };
        pilot.drain.is_none() && is_wanted && !pilot.walltime_end().is_some_and(is_over)
    }

    /// Returns all jobs.
    pub fn jobs(&self) -> &BTreeMap<JobId, Job> {
        &self.jobs
    }

    /// Returns the highest id that a job has had, even if the job was purged.
    pub fn last_job(&self) -> u64 {
        self.last_job
    }

    /// Returns all platforms.
    pub fn platforms(&self) -> &BTreeMap<PlatformId, PlatformSpec> {
        &self.facts.platforms
    }

    /// Returns the declared and measured properties of applications.
    pub fn facts(&self) -> &Applications {
        &self.facts
    }

    /// Returns the reason why all pilots of the allocation leave, whenever they come.
    pub fn given_back(&self, held: &Allocation) -> Option<DrainCause> {
        let mut causes = held.came.iter().filter_map(|id| self.pilots.get(id)?.drain.clone());
        causes.find(|cause| matches!(cause, DrainCause::Cancelled | DrainCause::Idle(_)))
    }

    /// Returns whether a platform's allocations are job arrays.
    pub fn is_array(&self, id: PlatformId) -> bool {
        self.platforms().get(&id).is_some_and(|spec| spec.is_array)
    }

    /// Returns whether no second pilot may use the join token of the first.
    pub fn joins_once(&self, id: PlatformId) -> bool {
        self.platforms().get(&id).is_some_and(|spec| spec.joins_once)
    }

    /// Returns the measurements, by platform and application.
    pub fn learned(&self) -> &BTreeMap<PlatformId, Arc<Learned>> {
        &self.facts.learned
    }

    /// Returns the slow-down by co-runners.
    pub fn neighbours(&self) -> &Interference {
        &self.facts.neighbours
    }

    /// Returns the queue waits of the platform's allocations with its present shape.
    pub fn waits(&self, id: PlatformId) -> Waits {
        let shape = self.platforms().get(&id).map(PlatformSpec::shape);
        shape.and_then(|shape| self.waits.get(&(id, shape))).copied().unwrap_or_default()
    }

    /// Returns the declared profiles of applications.
    pub fn declared(&self) -> &BTreeMap<String, Declared> {
        &self.facts.declared
    }

    /// Returns all allocations.
    pub fn allocations(&self) -> &BTreeMap<AllocationId, Allocation> {
        &self.allocations
    }

    /// Returns the allocation with that tag.
    pub fn allocation_of(&self, tag: &str) -> Option<(AllocationId, &Allocation)> {
        let id = self.tags.get(tag)?;
        Some((*id, self.allocations.get(id)?))
    }

    /// Returns the allocations that the platform may still have.
    pub fn allocations_there(&self, id: PlatformId) -> impl Iterator<Item = (AllocationId, &Allocation)> {
        let ours = self.there.range((id, AllocationId(0))..=(id, AllocationId(u64::MAX)));
        ours.filter_map(|(_, id)| Some((*id, self.allocations.get(id)?)))
    }

    /// Returns the mode of the platform.
    pub fn mode(&self, id: PlatformId) -> PlatformMode {
        self.modes.get(&id).copied().unwrap_or_default()
    }

    /// Returns the counts of the platform's allocations. O(log platforms).
    pub fn allocation_counts(&self, id: PlatformId) -> AllocationCounts {
        self.allocation_counts.get(&id).copied().unwrap_or_default()
    }

    /// Returns all pilots.
    pub fn pilots(&self) -> &BTreeMap<PilotId, Pilot> {
        &self.pilots
    }

    /// Returns the last changes of policies, oldest first.
    pub fn policy_changes(&self) -> &[PolicyChange] {
        &self.policy_changes
    }

    /// Returns the history of weights.
    pub fn weights(&self) -> &WeightLog {
        &self.weights
    }

    /// Returns the vCPU ratio of the platform, if it was ever changed.
    pub fn scaled(&self, id: PlatformId) -> Option<&Scaled> {
        self.scaled.get(&id)
    }

    /// Returns the bytes of the descriptions of a user's jobs.
    pub fn spec_bytes_of(&self, user: &str) -> u64 {
        self.spec_bytes.get(user).copied().unwrap_or(0)
    }

    /// Returns the job with a submission key.
    pub fn submission(&self, key: &str) -> Option<JobId> {
        self.submissions.get(key).copied()
    }

    /// Applies one record. A record about something unknown changes nothing, and no record makes a job's sets
    /// overlap or leave its range of indices: a store may have undetected damage.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::PlatformAttached { platform, spec, .. } => self.apply_platform(*platform, spec),
            Record::PlatformModeSet { platform, mode, .. } => _ = self.modes.insert(*platform, *mode),
            Record::PlatformScaled { platform, change } => {
                self.scaled.entry(*platform).or_default().note(change);
                self.resize_pilots(*platform);
            }
            Record::RatiosFound { platform, providers, .. } => {
                self.scaled.entry(*platform).or_default().former.extend(providers.iter().cloned());
            }
            Record::RatiosRestored { platform, ids, .. } => {
                let former = &mut self.scaled.entry(*platform).or_default().former;
                former.retain(|provider| !ids.contains(&provider.id));
            }
            Record::ProfileForgotten { application, .. } => self.facts.forget(application),
            Record::ProfileDeclared { application, declared, .. } => {
                self.facts.declare(application, declared.as_ref());
            }
            Record::PoliciesSet { by, configured, before, policies, at } => {
                let (at, by, configured) = (*at, by.clone(), *configured);
                let change = PolicyChange { at, by, configured, before: *before, policies: *policies };
                policies::remember(&mut self.policy_changes, change);
            }
            // Only the manager uses tokens, and keeps its own table of them from these records.
            Record::TokenMade { .. } | Record::TokensRevoked { .. } | Record::TokensUsed { .. } => {}
            Record::JobAccepted { job, request, at } => {
                if let Some(key) = &request.submission_key {
                    self.submissions.insert(key.clone(), *job);
                }
                let of_user = self.spec_bytes.entry(request.user.clone()).or_default();
                *of_user = of_user.saturating_add(request.spec.len() as u64);
                let mut new = Job::new(request.clone(), *at);
                new.note_end(*at);
                self.jobs.insert(*job, new);
                self.last_job = self.last_job.max(job.0);
            }
            Record::JobPurged { job, .. } => self.purge(*job),
            Record::JobPaused { job, .. } => self.with_job(*job, |job| job.is_paused = true),
            Record::JobResumed { job, .. } => self.with_job(*job, |job| job.is_paused = false),
            Record::TasksCancelled { job, tasks, cause, at } => {
                self.with_job(*job, |job| job.cancel(tasks, cause, *at));
            }
            Record::TasksReopened { job, tasks, .. } => self.with_job(*job, |job| job.reopen(tasks)),
            Record::BesideMeasured { platform, beside, .. } => {
                Arc::make_mut(&mut self.facts.neighbours).learn(*platform, beside);
            }
            Record::EffortsMeasured { platform, efforts, moved, .. } => {
                self.facts.learn_efforts(*platform, efforts);
                for (job, more) in moved {
                    self.with_job(*job, |job| job.moved.add(more));
                }
            }
            Record::WeightsMoved { changes, law, .. } => self.weights.note(changes, law.as_ref()),
            Record::Reported { pilot, seq, results, at } => self.apply_report(*pilot, *seq, results, *at),
            Record::AllocationIntended { .. }
            | Record::AllocationSubmitted { .. }
            | Record::AllocationUnknown { .. }
            | Record::AllocationShrunk { .. }
            | Record::AllocationReleased { .. }
            | Record::AllocationEnded { .. } => self.apply_allocation(record),
            Record::PilotRegistered { .. }
            | Record::PilotDrained { .. }
            | Record::PilotLeft { .. }
            | Record::PilotLost { .. }
            | Record::PilotReturned { .. }
            | Record::BlameTakenBack { .. } => self.apply_pilot(record),
        }
    }

    /// Removes a job. The measurements from its tasks stay.
    fn purge(&mut self, id: JobId) {
        let Some(JobRequest { user, spec, submission_key, .. }) =
            self.jobs.remove(&id).map(|job| job.request)
        else {
            return;
        };
        if let Some(of_user) = self.spec_bytes.get_mut(&user) {
            *of_user = of_user.saturating_sub(spec.len() as u64);
        }
        if let Some(key) = submission_key.filter(|key| self.submissions.get(key) == Some(&id)) {
            self.submissions.remove(&key);
        }
    }

    fn apply_report(&mut self, pilot: PilotId, seq: u64, results: &[JobResult], at: Time) {
        for result in results {
            let (n_done, n_failed) = (result.successes.tasks.len(), result.failures.len() as u64);
            let held = self.pilots.get(&pilot);
            let counts = |failure: &FailedAttempt| match failure.kind {
                FailureKind::Preempted => self.ended_early(pilot, at),
                _ => held.is_some_and(|pilot| pilot.had_its_chance(&failure.usage)),
            };
            let counts: Vec<bool> = result.failures.iter().map(counts).collect();
            let place = self.place(pilot);
            let n_nodes = if n_failed > 0 { self.n_nodes() } else { 0 };
            let n_of_place = result.failures.iter().filter(|failure| is_of_place(failure)).count() as u64;
            self.note_use(pilot, result);
            self.learn(pilot, result);
            let (mut failed_at, mut ended_with, mut accused) = (Vec::new(), Vec::new(), Vec::new());
            self.with_job(result.job, |job| {
                (failed_at, ended_with) = job.note_done(&result.successes.tasks);
                job.totals.add(&result.totals);
                job.note_work(&result.successes.tasks);
                for (failure, counts) in result.failures.iter().zip(counts) {
                    if counts && failure.kind == FailureKind::Preempted {
                        accused.push(TaskId { job: result.job, index: failure.index });
                    }
                    job.note_failure(place, failure.index, &failure.kind, failure.verdict, counts);
                }
                job.failing.note(place.node, &result.failures, n_nodes);
                if n_done > 0 || n_failed > 0 {
                    job.first_result_at.get_or_insert(at);
                }
                job.note_end(at);
            });
            self.with_pilot(pilot, |pilot| {
                pilot.n_done = pilot.n_done.saturating_add(n_done);
                pilot.n_failed = pilot.n_failed.saturating_add(n_failed);
                let n_accused = u32::try_from(accused.len()).unwrap_or(u32::MAX);
                pilot.n_accused = pilot.n_accused.saturating_add(n_accused);
                pilot.fortune.learn(n_done, n_of_place);
            });
            let of_job: Vec<u64> = accused.iter().map(|task| task.index).collect();
            for task in accused {
                self.note_end_with(pilot, task, at);
            }
            self.note_to_be_alone(result.job, &of_job, true, at);
            if let Some(fortune) = self.nodes.fortune_mut(place.node) {
                fortune.learn(n_done, n_of_place);
            }
            self.note_done_elsewhere(place, &failed_at);
            self.clear_ends(&ended_with, at);
        }
        self.with_pilot(pilot, |pilot| pilot.acknowledged = seq);
    }

    /// Returns the place of the pilot; for an unknown pilot, a place without a node.
    fn place(&self, id: PilotId) -> Place {
        let nowhere = Place { pilot: id, node: NodeId(u32::MAX), platform: PlatformId(0) };
        self.pilots.get(&id).map_or(nowhere, |pilot| pilot.place(id))
    }

    /// Notes that tasks have succeeded at `there` that failed at these places.
    fn note_done_elsewhere(&mut self, there: Place, failed_at: &[Place]) {
        for place in failed_at {
            let is_other = place.pilot != there.pilot;
            if let Some(pilot) = self.pilots.get_mut(&place.pilot).filter(|_| is_other) {
                pilot.fortune.n_done_elsewhere += 1;
            }
            if let Some(fortune) = self.nodes.fortune_mut(place.node).filter(|_| place.node != there.node) {
                fortune.n_done_elsewhere += 1;
            }
        }
    }

    /// Notes that a task has succeeded that ran when the batch jobs of these pilots were ended. Once all such
    /// tasks of a pilot have succeeded, none of them was the cause.
    fn clear_ends(&mut self, ended_with: &[PilotId], at: Time) {
        for id in ended_with {
            let Some(pilot) = self.pilots.get_mut(id).filter(|pilot| pilot.n_accused > 0) else { continue };
            pilot.n_accused -= 1;
            if pilot.n_accused == 0 {
                let ends = self.innocent_ends.entry(pilot.platform).or_default();
                ends.push_back(at);
                if ends.len() >= N_FOR_ONE_MAX as usize {
                    ends.pop_front();
                }
            }
        }
    }

    /// Counts the use of attempts on the pilot's platform. Attempts of lost pilots are not reported and do
    /// not count.
    fn note_use(&mut self, pilot: PilotId, result: &JobResult) {
        let platform = self.pilots.get(&pilot).map(|pilot| pilot.platform);
        let (Some(platform), Some(job)) = (platform, self.jobs.get(&result.job)) else { return };
        let failed =
            result.failures.iter().fold(0_u64, |sum, failed| sum.saturating_add(failed.usage.wall_us));
        let wall = Span(result.totals.wall_us.saturating_add(failed));
        let core_time = wall.times(job.request.needs.resources.cores.into());
        let (used, user) = (self.used.entry(platform).or_default(), &job.request.user);
        match used.get_mut(user) {
            Some(before) => *before = Span(before.0.saturating_add(core_time.0)),
            None => _ = used.insert(user.clone(), core_time),
        }
    }

    fn learn(&mut self, pilot: PilotId, result: &JobResult) {
        let platform = self.pilots.get(&pilot).map(|pilot| pilot.platform);
        let (Some(platform), Some(job)) = (platform, self.jobs.get(&result.job)) else { return };
        self.facts.learn(platform, &job.request, result);
    }

    fn learn_lost(&mut self, pilot: PilotId, job: JobId, n: f64) {
        let platform = self.pilots.get(&pilot).map(|pilot| pilot.platform);
        let (Some(platform), Some(job)) = (platform, self.jobs.get(&job)) else { return };
        self.facts.learn_lost(platform, &job.request.application, n);
    }

    /// Sets a platform's specification. If its identity changes, its allocations are left behind, or belong
    /// to it again.
    fn apply_platform(&mut self, id: PlatformId, spec: &PlatformSpec) {
        let before = Arc::make_mut(&mut self.facts.platforms).insert(id, spec.clone());
        if before.is_none_or(|before| Origin::of(&before) == Origin::of(spec)) {
            return;
        }
        let is_its = |held: &Allocation| held.platform == id && held.may_be_there();
        let of_it: Vec<AllocationId> =
            self.allocations.iter().filter(|(_, held)| is_its(held)).map(|(id, _)| *id).collect();
        for allocation in of_it {
            self.with_allocation(allocation, |held| held.compare_with(spec));
        }
    }

    fn apply_allocation(&mut self, record: &Record) {
        match record {
            Record::AllocationIntended { allocation, platform, tag, because, at } => {
                let spec = self.platforms().get(platform);
                let new = Allocation {
                    platform: *platform,
                    origin: spec.map(Origin::of).unwrap_or_default(),
                    is_left_behind: false,
                    tag: tag.clone(),
                    n_nodes: spec.map_or(1, |spec| spec.n_nodes),
                    n_nodes_there: spec.map_or(1, |spec| spec.n_nodes),
                    cores: spec.map_or(0, PlatformSpec::cores_of_allocation),
                    walltime: because
                        .as_ref()
                        .and_then(|because| because.walltime)
                        .or(spec.and_then(|spec| spec.walltime)),
                    because: because.clone(),
                    state: AllocationState::Intended,
                    batch_id: None,
                    intended_at: *at,
                    submitted_at: None,
                    came: Vec::new(),
                    began_at: None,
                    ended_at: None,
                    end_cause: None,
                    may_have_run: false,
                    was_released: false,
                    was_unlisted: false,
                };
                if let Some(before) = self.allocations.remove(allocation) {
                    self.count(&before, false);
                    self.there.remove(&(before.platform, *allocation));
                }
                self.tags.insert(tag.clone(), *allocation);
                self.asked.entry(*platform).or_default().intended(*allocation);
                self.count(&new, true);
                self.there.insert((*platform, *allocation));
                self.allocations.insert(*allocation, new);
            }
            Record::AllocationSubmitted { allocation, batch_id, was_listed, at } => {
                self.note_answer(*allocation, *at);
                let platforms = Arc::clone(&self.facts.platforms);
                self.with_allocation(*allocation, |a| {
                    match platforms.get(&a.platform) {
                        Some(spec) if *was_listed => a.is_shown_by(spec),
                        Some(spec) => a.compare_with(spec),
                        None => {}
                    }
                    a.state = AllocationState::Submitted;
                    a.batch_id = Some(batch_id.clone()).filter(|id| !id.is_empty());
                    a.submitted_at = Some(*at);
                    a.may_have_run = true;
                    (a.ended_at, a.end_cause) = (None, None);
                    (a.was_released, a.was_unlisted) = (false, false);
                })
            }
            Record::AllocationUnknown { allocation, what, at } => {
                self.note_answer(*allocation, *at);
                self.with_allocation(*allocation, |a| {
                    a.state = AllocationState::Unknown(what.clone(), *at);
                    a.may_have_run = true;
                });
            }
            Record::AllocationShrunk { allocation, n_nodes, .. } => {
                self.with_allocation(*allocation, |a| a.n_nodes_there = *n_nodes);
            }
            Record::AllocationReleased { allocation, why, at } => self.with_allocation(*allocation, |a| {
                a.state = AllocationState::Leaving(why.clone(), *at);
                a.was_released = true;
            }),
            Record::AllocationEnded { allocation, why, cause, was_unlisted, at } => {
                self.note_answer(*allocation, *at);
                for task in self.waiting_to_be_told(*allocation, *at) {
                    self.with_job(task.job, |job| job.end_wait_for_cause(task.index, *at));
                }
                self.with_allocation(*allocation, |a| {
                    a.state = AllocationState::Ended(why.clone());
                    (a.ended_at, a.end_cause, a.was_unlisted) = (Some(*at), *cause, *was_unlisted);
                });
            }
            _ => {}
        }
    }

    fn note_answer(&mut self, allocation: AllocationId, at: Time) {
        let platform = self.allocations.get(&allocation).map(|held| held.platform);
        if let Some(asked) = platform.and_then(|platform| self.asked.get_mut(&platform)) {
            asked.answered(allocation, at);
        }
    }

    fn apply_pilot(&mut self, record: &Record) {
        match record {
            Record::PilotRegistered { pilot, allocation, nonce, node, born_at, at } => {
                let Some(platform) = self.allocations.get(allocation).map(|held| held.platform) else {
                    return;
                };
                let node_id = self.nodes.known(platform, &node.hostname);
                let new = Pilot {
                    allocation: *allocation,
                    platform,
                    nonce: *nonce,
                    node: node.clone(),
                    born_at: *born_at,
                    registered_at: *at,
                    acknowledged: 0,
                    drain: None,
                    ended: None,
                    has_left: false,
                    n_returns: 0,
                    n_done: 0,
                    n_failed: 0,
                    node_id,
                    fortune: Fortune::default(),
                    n_accused: 0,
                    alike: Alike::default(),
                };
                self.pilots.insert(*pilot, new);
                self.resize_pilot(*pilot);
                let held = self.allocations.get(allocation).filter(|held| held.is_unused());
                if let Some(held) = held {
                    let wait = born_at.since(held.intended_at);
                    self.waits.entry((platform, held.shape())).or_default().learn(wait, held.shortage());
                }
                self.with_allocation(*allocation, |held| {
                    held.came.push(*pilot);
                    // Its agent may have been restarted before a pilot was heard.
                    let gone =
                        held.walltime.zip(node.walltime_left).map(|(all, left)| all.0.saturating_sub(left.0));
                    let since = gone.map_or(*born_at, |gone| Time(at.0.saturating_sub(gone)).min(*born_at));
                    // A node's clock may be wrong.
                    let since = since.max(held.intended_at);
                    held.began_at = Some(held.began_at.map_or(since, |before| before.min(since)));
                });
            }
            Record::PilotDrained { pilot, why, .. } => {
                self.with_pilot(*pilot, |pilot| pilot.drain = Some(why.clone()));
            }
            Record::PilotLeft { pilot, why, at } => self.with_pilot(*pilot, |pilot| {
                (pilot.ended, pilot.has_left) = (Some((*at, why.clone())), true);
            }),
            Record::PilotLost { pilot, why, blamed, at } => {
                self.with_pilot(*pilot, |pilot| pilot.ended = Some((*at, why.clone())));
                let place = self.place(*pilot);
                let n_blamed = blamed.len() as u64;
                self.with_pilot(*pilot, |pilot| pilot.fortune.count(0, n_blamed));
                if let Some(fortune) = self.nodes.fortune_mut(place.node) {
                    fortune.count(0, n_blamed);
                }
                for Blamed { task, verdict, .. } in blamed {
                    self.with_job(task.job, |job| {
                        job.note_failure(place, task.index, &FailureKind::PilotLost, *verdict, false);
                        job.note_end(*at);
                    });
                    self.learn_lost(*pilot, task.job, 1.0);
                    self.note_end_with(*pilot, *task, *at);
                    self.note_to_be_alone(task.job, &[task.index], false, *at);
                }
            }
            Record::PilotReturned { pilot, .. } => {
                self.with_pilot(*pilot, |pilot| {
                    (pilot.ended, pilot.has_left) = (None, false);
                    pilot.n_returns = pilot.n_returns.saturating_add(1);
                });
                self.forget_end(*pilot);
                self.resize_pilot(*pilot);
            }
            Record::BlameTakenBack { pilot, tasks, .. } => {
                for (job, tasks) in tasks {
                    self.with_job(*job, |job| job.take_back_blame(*pilot, tasks));
                    self.learn_lost(*pilot, *job, -(tasks.len() as f64));
                }
            }
            _ => {}
        }
    }

    /// Applies the platform's vCPU ratio to its live pilots.
    fn resize_pilots(&mut self, platform: PlatformId) {
        let is_there = |pilot: &Pilot| pilot.platform == platform && pilot.is_live();
        let there: Vec<PilotId> =
            self.pilots.iter().filter(|(_, pilot)| is_there(pilot)).map(|(id, _)| *id).collect();
        for id in there {
            self.resize_pilot(id);
        }
    }

    fn resize_pilot(&mut self, id: PilotId) {
        let Some(pilot) = self.pilots.get(&id) else { return };
        let capacity = self.with_slots(pilot.platform, pilot.node.capacity.clone());
        self.with_pilot(id, |pilot| pilot.node.capacity = capacity);
    }

    /// Notes that these tasks must run alone next.
    pub(in crate::engine) fn set_to_be_alone(&mut self, job: JobId, tasks: &[u64]) {
        self.with_job(job, |job| tasks.iter().for_each(|index| job.set_to_be_alone(*index)));
    }

    fn with_job(&mut self, job: JobId, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.jobs.get_mut(&job) {
            change(job);
        }
    }

    pub(in crate::engine) fn with_pilot(&mut self, pilot: PilotId, change: impl FnOnce(&mut Pilot)) {
        if let Some(pilot) = self.pilots.get_mut(&pilot) {
            change(pilot);
        }
    }

    fn with_allocation(&mut self, allocation: AllocationId, change: impl FnOnce(&mut Allocation)) {
        let Some(mut held) = self.allocations.remove(&allocation) else { return };
        self.count(&held, false);
        change(&mut held);
        self.count(&held, true);
        let entry = (held.platform, allocation);
        match held.is_counted() {
            true => self.there.insert(entry),
            false => self.there.remove(&entry),
        };
        self.allocations.insert(allocation, held);
    }

    /// Adds an allocation in its present state to the counts, or removes it.
    fn count(&mut self, held: &Allocation, is_counted: bool) {
        let core_time = u128::from(held.core_time().0);
        let allocation_counts = self.allocation_counts.entry(held.platform).or_default();
        let n_nodes = held.n_nodes_there as usize;
        for (sum, n) in [
            (&mut allocation_counts.n_there, if held.is_counted() { n_nodes } else { 0 }),
            (&mut allocation_counts.n_live, if held.is_counted() && held.is_live() { n_nodes } else { 0 }),
            (&mut allocation_counts.n_waiting, if held.is_counted() { held.n_waiting() } else { 0 }),
            (&mut allocation_counts.n_queued, usize::from(held.is_counted() && held.is_unused())),
        ] {
            *sum = if is_counted { *sum + n } else { *sum - n };
        }
        let sum = if held.may_be_there() {
            &mut allocation_counts.committed_us
        } else {
            &mut allocation_counts.spent_us
        };
        *sum = if is_counted { *sum + core_time } else { *sum - core_time };
    }
}

impl Durable {
    /// Returns the number of nodes that have pilots or will have, at most [`N_NODES`].
    pub(in crate::engine) fn n_nodes(&self) -> usize {
        let n_waiting: usize = self.platforms().keys().map(|id| self.allocation_counts(*id).n_waiting).sum();
        let mut nodes: Vec<NodeId> = Vec::new();
        for allocation in self.platforms().keys().flat_map(|id| self.allocations_there(*id)) {
            for pilot in self.live_pilots(allocation.1) {
                let node = self.pilots().get(&pilot).map(|pilot| pilot.node_id);
                nodes.extend(node.filter(|node| !nodes.contains(node)));
            }
            if nodes.len() + n_waiting >= N_NODES {
                return N_NODES;
            }
        }
        nodes.len() + n_waiting
    }
}

impl Durable {
    /// Returns the policies in force, given the configuration's.
    pub fn policies(&self, configured: Policies) -> Policies {
        let last = self.policy_changes().last().filter(|change| change.configured == configured);
        last.map_or(configured, |change| change.policies)
    }

    /// Returns the policies in force and their history, given the configuration's.
    pub(in crate::engine) fn policies_view(&self, configured: Policies) -> PoliciesView {
        let policies = self.policies(configured);
        PoliciesView { configured, policies, changes: self.policy_changes().to_vec() }
    }
}

impl Durable {
    /// Returns the resources of a pilot of the platform.
    pub fn offered(&self, id: PlatformId) -> Resources {
        let capacity = self.platforms().get(&id).map(|spec| spec.capacity.clone()).unwrap_or_default();
        self.with_slots(id, capacity)
    }

    /// Returns the resources of a pilot on a node with this capacity.
    pub(in crate::engine) fn with_slots(&self, id: PlatformId, mut capacity: Resources) -> Resources {
        let ratio = self.scaled(id).map_or(Ratio::ONE, Scaled::of_pilots);
        let n_cores = if capacity.widest > 0 { capacity.widest } else { capacity.cores };
        let is_scaled = ratio != Ratio::ONE;
        (capacity.cores, capacity.widest) = (ratio.of_cores(n_cores), if is_scaled { n_cores } else { 0 });
        capacity
    }
}
