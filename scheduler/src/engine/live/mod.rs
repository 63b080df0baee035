//! What a restart forgets and pilots bring back: leases, heartbeats, parked pulls, timers.

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

/// Live state of everything.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Which life of the manager this is: grows with each start, never 0.
    pub epoch: u64,
    /// The last time heard of.
    pub now: Time,
    /// When this life of the manager began: intents from before have no submission under way any more.
    pub started_at: Time,
    /// Until when tasks are withheld for pilots that have not said what they hold.
    pub grace_until: Time,
    /// Since when allocations are seen to run of which no pilot has come.
    pub running_since: BTreeMap<AllocationId, Time>,
    /// Allocations that stand still, as their platforms say, and since when that is known.
    pub suspended: BTreeMap<AllocationId, Time>,
    /// Allocations that their platforms do not list although their pilots speak.
    pub unlisted: BTreeSet<AllocationId>,
    /// Allocations that a listing of this life has shown as there, and when the first of those was asked for.
    pub shown: BTreeMap<AllocationId, Time>,
    /// Allocations that wait, and that the last listing lacked.
    pub missed: BTreeSet<AllocationId>,
    /// Why allocations wait, in their platforms' words.
    pub queue_reasons: BTreeMap<AllocationId, QueueReason>,
    /// Those of them that have been held for so long that nobody waits for them; some may be gone.
    pub held_for_long: BTreeSet<AllocationId>,
    /// What platforms have said is wrong with allocations that may be there, and whether they only lack room.
    pub allocation_errors: BTreeMap<AllocationId, (String, bool)>,
    /// Jobs that are not over.
    pub jobs: BTreeMap<JobId, JobLeases>,
    /// Live pilots. In boxes, as a map's nodes are half empty.
    pub pilots: BTreeMap<PilotId, Box<PilotState>>,
    /// How many of them have not said, in this epoch, what they hold.
    pub n_unsynced: usize,
    /// Pilots of before this epoch that have said in it what they hold, and with which number their reports go on.
    pub told: BTreeMap<PilotId, GoesOn>,
    /// Which open tasks wait for others.
    pub graph: Graph,
    /// Parked pulls.
    pub parked: ParkedPulls,
    /// Jobs with ready tasks, but those of profiling runs.
    pub ready: BTreeSet<JobId>,
    /// The same in line.
    pub lineup: WaitingLine,
    /// Those of which something has become ready, or may be had again, since parked pulls were last
    /// looked at.
    pub dirty_jobs: BTreeSet<JobId>,
    /// Pilots to whom something was said since then, or that need not keep their cores any more.
    pub pilots_to_notify: BTreeSet<PilotId>,
    /// Pilots that hold nothing, and since when, a platform after the other.
    pub idle: BTreeSet<(PlatformId, Time, PilotId)>,
    /// Pilots of a platform that take part and have so much.
    pub capacities: BTreeMap<(PlatformId, Resources), BTreeSet<PilotId>>,
    /// Pilots that have a job's template.
    pub template_holders: BTreeMap<JobId, BTreeSet<PilotId>>,
    /// Cores that each user's jobs hold.
    pub user_cores: BTreeMap<String, u64>,
    /// Results that pilots have and have not reported, of tasks that another one held when they said so.
    pub unreported_results: BTreeMap<(JobId, PilotId), TaskSet>,
    /// What pilots held when they were given up and have not answered for since. It outlives its jobs: whoever comes back
    /// does not know that they are over, and they may have been opened again.
    pub former: BTreeMap<PilotId, BTreeMap<JobId, TaskSet>>,
    /// Results that were refused because their pilots were not leased the tasks.
    pub n_refused: u64,
    /// Of each job what was held by pilots that were lost while tasks of it ran: one of them may have taken those down.
    /// What was only held is none any more once it has run elsewhere; what was blamed is one until it has ended.
    pub suspects: BTreeMap<JobId, TaskSet>,
    /// Open tasks of each job that one more lost pilot sets aside.
    pub last_chances: BTreeMap<JobId, TaskSet>,
    /// Open tasks of each job that are to run alone.
    pub alone: BTreeMap<JobId, TaskSet>,
    /// The pilot that is being emptied so that it can run such a task of a job.
    pub emptied: BTreeMap<JobId, PilotId>,
    /// How many pilots were lost with, or ended with, an open task of each job at most, when that was last counted.
    pub n_crash_most: BTreeMap<JobId, u32>,
    /// Jobs with tasks that have failed and were ready since they were last looked at.
    pub retried: BTreeSet<JobId>,
    /// When they are to be.
    pub retries_due_at: Option<Time>,
    /// Tasks of each job that have waited for long enough for others than those on which they failed.
    pub impatient: BTreeMap<JobId, TaskSet>,
    /// … and for long enough for another pilot of the same node.
    pub restless: BTreeMap<JobId, TaskSet>,
    /// How many pilots keep cores for a job.
    pub n_reservations: usize,
    /// Jobs for which they do.
    pub reserved_jobs: BTreeSet<JobId>,
    /// Tasks of each job that pilots of a platform hold.
    pub held_on: BTreeMap<(PlatformId, JobId), u64>,
    /// Platforms.
    pub platforms: BTreeMap<PlatformId, PlatformState>,
    /// What the policies say at present.
    pub plan: Plan,
    /// When there is to be another one.
    pub plan_schedule: PlanSchedule,
    /// Which weights were written down.
    pub weights: Noted,
    /// Allocations that are to be asked of each platform in this step, once they were placed, and what was compared.
    pub placed: Option<(BTreeMap<PlatformId, u64>, Option<Compared>)>,
    /// Of each job that waited when allocations were placed: the serving counter when it was last given out, and since
    /// when that is so.
    pub starved: BTreeMap<JobId, (u64, Time)>,
    /// Platforms with a profiling run.
    pub profiling: BTreeMap<PlatformId, ProfilingRun>,
    /// Successes beside others that are not written down yet: how many, and their wall time in microseconds.
    pub measured: BTreeMap<(PlatformId, String, CoRunners), (u64, u64)>,
    /// The same of what they needed beside cores.
    pub efforts: Efforts,
    /// The same of bytes of files that have moved for jobs.
    pub moved: Moved,
    /// When they are to be.
    pub measured_due_at: Option<Time>,
    /// What is due when.
    pub timers: BTreeSet<(Time, Timer)>,
    /// Counts bundles given out, so that ties go to whoever was served longest ago.
    pub n_served: u64,
    /// Counts the questions to pilots what they hold.
    pub n_questions: u64,
    /// Who waits for the end, and whether it is urgent.
    pub shutdown: Option<(Vec<RequestId>, bool)>,
}

impl Live {
    /// What is true right after a restart: no leases, pilots not yet heard of, due retries armed.
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

    /// Whether tasks are withheld because a pilot of before the restart has not said what it holds.
    pub fn is_in_grace(&self) -> bool {
        self.now < self.grace_until && self.n_unsynced > 0
    }

    /// Notes which jobs wait now, and since when nothing of each has been given out.
    pub fn note_starved(&mut self, now: Time) {
        let before = std::mem::take(&mut self.starved);
        let since = |id: &JobId| {
            let served = self.jobs.get(id)?.last_served;
            let known = before.get(id).filter(|(held, _)| *held == served);
            Some((*id, (served, known.map_or(now, |(_, since)| *since))))
        };
        self.starved = self.ready.iter().filter_map(since).collect();
    }

    /// Whether cores kept so are there before those that this pilot keeps, or it is late.
    pub fn is_sooner(&self, keep: Reservation, keeper: PilotId, now: Time) -> bool {
        let kept = self.pilots.get(&keeper).and_then(|state| state.reservation);
        kept.is_none_or(|kept| keep.until < kept.until || kept.until < now)
    }

    /// Sees to it that the pilot is looked at, at `at` or before.
    pub fn arm_pilot(&mut self, id: PilotId, at: Time) {
        let Some(pilot) = self.pilots.get_mut(&id) else { return };
        if pilot.timer_at.is_none_or(|armed| at < armed) {
            if let Some(armed) = pilot.timer_at.replace(at) {
                self.timers.remove(&(armed, Timer::Pilot(id)));
            }
            self.timers.insert((at, Timer::Pilot(id)));
        }
    }

    /// Sees to it that the platform is looked at, at `at` or before.
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
