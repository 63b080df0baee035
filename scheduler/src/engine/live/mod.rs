//! The state that a restart forgets and pilots bring back: leases, heartbeats, parked pulls, timers.

pub mod blame;
pub mod isolation;
pub mod job_leases;
pub mod leases;
pub mod pilots;
pub mod plan;
pub mod platform;
pub mod profiling;
pub mod ready;
pub mod resource_use;
pub mod timers;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        interface::RequestId,
        live::{
            job_leases::JobLeases,
            pilots::{agreement::GoesOn, pilot_state::PilotState, reservation::Reservation},
            plan::{in_force::Plan, schedule::PlanSchedule, weight_changes::Noted},
            platform::{platform_state::PlatformState, queue_reasons::QueueReason},
            profiling::ProfilingRun,
            ready::{parked_pulls::ParkedPulls, waiting_line::WaitingLine},
            resource_use::{Efforts, Moved},
            timers::Timer,
        },
        record::{co_runners::CoRunners, provision_reason::Compared},
        state::{dependencies::Graph, durable::Durable},
    },
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    ranges::TaskSet,
    resources::Resources,
    time::Time,
};

/// The live state of the manager.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// The epoch of this manager: it grows with each start and is never 0.
    pub epoch: u64,
    /// The time of the last event.
    pub now: Time,
    /// The start of this epoch. Requests for allocations from before it are no longer being submitted.
    pub started_at: Time,
    /// The end of the grace period, in which tasks are withheld for pilots that have not said what they hold.
    pub grace_until: Time,
    /// The time since when listings show an allocation as running without a live pilot.
    pub running_since: BTreeMap<AllocationId, Time>,
    /// Allocations that their platforms report as suspended, and since when that is known.
    pub suspended: BTreeMap<AllocationId, Time>,
    /// Allocations that their platforms do not list although their pilots are alive.
    pub unlisted: BTreeSet<AllocationId>,
    /// Allocations that a listing of this epoch has shown, and the time at which the first such listing was
    /// requested.
    pub shown: BTreeMap<AllocationId, Time>,
    /// Waiting allocations that the last listing lacked.
    pub missed: BTreeSet<AllocationId>,
    /// The reasons why allocations wait, in their platforms' words.
    pub queue_reasons: BTreeMap<AllocationId, QueueReason>,
    /// Allocations of these that have been held for so long that no work waits for them; some may have ended.
    pub held_for_long: BTreeSet<AllocationId>,
    /// Problems with allocations that may be there, in their platforms' words, and whether they only lack
    /// room.
    pub allocation_errors: BTreeMap<AllocationId, (String, bool)>,
    /// Jobs that have not ended.
    pub jobs: BTreeMap<JobId, JobLeases>,
    /// Live pilots. They are boxed because a map's nodes are half empty.
    pub pilots: BTreeMap<PilotId, Box<PilotState>>,
    /// Number of live pilots that have not said in this epoch what they hold.
    pub n_unsynced: usize,
    /// Pilots of an earlier epoch that have said in this one what they hold, and how their reports continue.
    pub told: BTreeMap<PilotId, GoesOn>,
    /// The dependencies among open tasks.
    pub graph: Graph,
    /// Parked pulls.
    pub parked: ParkedPulls,
    /// Jobs with ready tasks, except jobs of profiling runs.
    pub ready: BTreeSet<JobId>,
    /// The same jobs in their waiting line.
    pub lineup: WaitingLine,
    /// Jobs of which tasks have become ready, or available to more pilots, since parked pulls were last
    /// looked at.
    pub dirty_jobs: BTreeSet<JobId>,
    /// Pilots that since then got a command or no longer need to keep their cores.
    pub pilots_to_notify: BTreeSet<PilotId>,
    /// Pilots that hold nothing, and since when, by platform.
    pub idle: BTreeSet<(PlatformId, Time, PilotId)>,
    /// Pilots that take part, by platform and capacity.
    pub capacities: BTreeMap<(PlatformId, Resources), BTreeSet<PilotId>>,
    /// The pilots that have each job's template.
    pub template_holders: BTreeMap<JobId, BTreeSet<PilotId>>,
    /// Number of cores that each user's jobs hold.
    pub user_cores: BTreeMap<String, u64>,
    /// Tasks whose results a pilot has and has not reported, and that another pilot held when the first one
    /// said so.
    pub unreported_results: BTreeMap<(JobId, PilotId), TaskSet>,
    /// Tasks that lost pilots held and have not answered for since. An entry outlives its job: a pilot that
    /// comes back does not know that the job has ended, and the tasks may have been reopened.
    pub former: BTreeMap<PilotId, BTreeMap<JobId, TaskSet>>,
    /// Number of results that were refused because their pilots had no lease of the tasks.
    pub n_refused: u64,
    /// The suspects of each job: tasks that pilots held when they were lost while tasks of the job ran. One
    /// of them may have caused the loss. A task that was only held is cleared when it has run elsewhere, a
    /// blamed one when it has ended.
    pub suspects: BTreeMap<JobId, TaskSet>,
    /// Open tasks of each job that one more lost pilot quarantines.
    pub last_chances: BTreeMap<JobId, TaskSet>,
    /// Open tasks of each job that must run alone.
    pub alone: BTreeMap<JobId, TaskSet>,
    /// The pilot that is being emptied for a task of each job that must run alone.
    pub emptied: BTreeMap<JobId, PilotId>,
    /// The largest number of pilots that were lost, or ended, with the same open task of each job, at the
    /// last count.
    pub n_crash_most: BTreeMap<JobId, u32>,
    /// Jobs with failed tasks that became ready since retries were last looked at.
    pub retried: BTreeSet<JobId>,
    /// The time at which they are looked at again.
    pub retries_due_at: Option<Time>,
    /// Tasks of each job that no longer wait for another platform or node than those on which they failed.
    pub impatient: BTreeMap<JobId, TaskSet>,
    /// Tasks of each job that no longer wait for another pilot of the same node.
    pub restless: BTreeMap<JobId, TaskSet>,
    /// Number of reservations.
    pub n_reservations: usize,
    /// Jobs for which pilots keep cores.
    pub reserved_jobs: BTreeSet<JobId>,
    /// Number of tasks of each job that pilots of a platform hold.
    pub held_on: BTreeMap<(PlatformId, JobId), u64>,
    /// The platforms.
    pub platforms: BTreeMap<PlatformId, PlatformState>,
    /// The plan in force.
    pub plan: Plan,
    /// The time of the next plan.
    pub plan_schedule: PlanSchedule,
    /// The weights that were last recorded.
    pub weights: Noted,
    /// The allocations to request from each platform in this step, once placement has run, and the comparison
    /// behind them.
    pub placed: Option<(BTreeMap<PlatformId, u64>, Option<Compared>)>,
    /// Each job that waited when allocations were last placed: the serving counter at its last bundle, and
    /// the time since when that has not changed.
    pub starved: BTreeMap<JobId, (u64, Time)>,
    /// The profiling runs, by platform.
    pub profiling: BTreeMap<PlatformId, ProfilingRun>,
    /// Successful attempts beside co-runners that are not recorded yet: their number, and their runtime in
    /// microseconds.
    pub measured: BTreeMap<(PlatformId, String, CoRunners), (u64, u64)>,
    /// The resources that tasks used beside cores, not recorded yet.
    pub efforts: Efforts,
    /// The bytes of files that have moved for jobs, not recorded yet.
    pub moved: Moved,
    /// The time at which these measurements are recorded.
    pub measured_due_at: Option<Time>,
    /// The timers, by due time.
    pub timers: BTreeSet<(Time, Timer)>,
    /// The serving counter: counts bundles, so that ties go to the job that was served longest ago.
    pub n_served: u64,
    /// Counts the questions to pilots about what they hold.
    pub n_questions: u64,
    /// The requests that wait for the shutdown, and whether it is urgent.
    pub shutdown: Option<(Vec<RequestId>, bool)>,
}

impl Live {
    /// Returns the state right after a restart: no leases, no pilot heard of yet, and timers for pending
    /// retries.
    pub fn rebuild(durable: &Durable, epoch: u64, now: Time) -> Live {
        let graph = Graph::rebuild(durable);
        let mut live = Live { epoch, now, started_at: now, graph, ..Live::default() };
        for (id, job) in durable.jobs().iter().filter(|(_, job)| job.ended_at.is_none()) {
            let mut ready = job.open.clone();
            if let Some(blocked) = live.graph.blocked(*id) {
                ready.remove_all(blocked);
            }
            for (index, trouble) in &job.troubled {
                if trouble.retry_at > now && ready.remove(*index) {
                    live.timers.insert((trouble.retry_at, Timer::Retry(TaskId { job: *id, index: *index })));
                }
            }
            live.add_job(*id, job);
            live.suspect_blamed(*id, job);
            live.set_last_chances(*id, job);
            live.add_ready(*id, &ready);
            if !job.failed_at.is_empty() {
                live.note_retried(*id, now);
            }
        }
        for (id, _) in durable.pilots().iter().filter(|(_, pilot)| pilot.is_live()) {
            live.add_pilot(durable, *id, PilotState { last_heard: now, ..PilotState::default() });
        }
        for id in durable.platforms().keys() {
            live.platforms.insert(*id, PlatformState::default());
        }
        live
    }

    /// Returns whether tasks are withheld because a pilot from before the restart has not said what it holds.
    pub fn is_in_grace(&self) -> bool {
        self.now < self.grace_until && self.n_unsynced > 0
    }

    /// Notes which jobs wait now, and since when no task of each has been leased.
    pub fn note_starved(&mut self, now: Time) {
        let before = std::mem::take(&mut self.starved);
        let since = |id: &JobId| {
            let served = self.jobs.get(id)?.last_served;
            let known = before.get(id).filter(|(held, _)| *held == served);
            Some((*id, (served, known.map_or(now, |(_, since)| *since))))
        };
        self.starved = self.ready.iter().filter_map(since).collect();
    }

    /// Returns whether cores reserved by `keep` come free before those that the pilot `keeper` keeps, or the
    /// latter are overdue.
    pub fn is_sooner(&self, keep: Reservation, keeper: PilotId, now: Time) -> bool {
        let kept = self.pilots.get(&keeper).and_then(|state| state.reservation);
        kept.is_none_or(|kept| keep.until < kept.until || kept.until < now)
    }

    /// Sets the pilot's timer to `at`, unless it is due before.
    pub fn arm_pilot(&mut self, id: PilotId, at: Time) {
        let Some(pilot) = self.pilots.get_mut(&id) else { return };
        if pilot.timer_at.is_none_or(|armed| at < armed) {
            if let Some(armed) = pilot.timer_at.replace(at) {
                self.timers.remove(&(armed, Timer::Pilot(id)));
            }
            self.timers.insert((at, Timer::Pilot(id)));
        }
    }

    /// Sets the platform's timer to `at`, unless it is due before.
    pub fn arm_platform(&mut self, id: PlatformId, at: Time) {
        let Some(platform) = self.platforms.get_mut(&id) else { return };
        if platform.timer_at.is_none_or(|armed| at < armed) {
            if let Some(armed) = platform.timer_at.replace(at) {
                self.timers.remove(&(armed, Timer::Platform(id)));
            }
            self.timers.insert((at, Timer::Platform(id)));
        }
    }
}
