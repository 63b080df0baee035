//! What a restart forgets and pilots bring back: leases, heartbeats, parked pulls, timers.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        interface::{RequestId, platform::queue_load::QueueLoad},
        live::{
            agreement::GoesOn,
            by_size::BySize,
            doubts::RowBegan,
            effort::{Efforts, Moved},
            lineup::{Lineup, Newcomer},
            neighbours::Crew,
            plan::{guide::Guide, guiding::Guiding, quotas::Divided, weight_history::Noted},
            platform::{queue_reasons::QueueReason, scaling::Watch, short_lived::ShortLived},
            profiling::ProfilingRun,
            standby::Parked,
        },
        record::{because::Compared, beside::Company},
        state::{durable::Durable, graph::Graph, job::Job},
    },
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    pull::{Part, PilotCommand},
    ranges::TaskSet,
    resources::Resources,
    time::Time,
};

/// Volatile state of everything.
#[derive(Clone, Debug, Default)]
pub struct Volatile {
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
    pub troubles: BTreeMap<AllocationId, (String, bool)>,
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
    pub parked: Parked,
    /// Jobs with ready tasks, but those of profiling runs.
    pub ready: BTreeSet<JobId>,
    /// The same in line.
    pub lineup: Lineup,
    /// Those of which something has become ready, or may be had again, since parked pulls were last
    /// looked at.
    pub stirred: BTreeSet<JobId>,
    /// Pilots to whom something was said since then, or that need not keep their cores any more.
    pub commanded: BTreeSet<PilotId>,
    /// Pilots that hold nothing, and since when, a platform after the other.
    pub idle: BTreeSet<(PlatformId, Time, PilotId)>,
    /// Pilots of a platform that take part and have so much.
    pub capacities: BTreeMap<(PlatformId, Resources), BTreeSet<PilotId>>,
    /// Pilots that have a job's template.
    pub knowing: BTreeMap<JobId, BTreeSet<PilotId>>,
    /// Cores that each user's jobs hold.
    pub user_cores: BTreeMap<String, u64>,
    /// Results that pilots have and have not reported, of tasks that another one held when they said so.
    pub owed: BTreeMap<(JobId, PilotId), TaskSet>,
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
    pub n_keepers: usize,
    /// Jobs for which they do.
    pub kept_for: BTreeSet<JobId>,
    /// Tasks of each job that pilots of a platform hold.
    pub held_on: BTreeMap<(PlatformId, JobId), u64>,
    /// Platforms.
    pub platforms: BTreeMap<PlatformId, PlatformState>,
    /// What the policies say at present.
    pub guide: Guide,
    /// When there is to be another one.
    pub guiding: Guiding,
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
    pub measured: BTreeMap<(PlatformId, String, Company), (u64, u64)>,
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

/// Who holds how much of a job.
#[derive(Clone, Debug, Default)]
pub struct JobLeases {
    /// Open tasks that no pilot holds and that need not wait.
    pub ready: TaskSet,
    /// The same by their estimates, where bundles are packed by them.
    pub by_size: Option<Box<BySize>>,
    /// How many tasks pilots hold.
    pub n_leased: u64,
    /// How many of them are known to have begun.
    pub n_running: u64,
    /// Cores that they hold. What is sent ahead holds none: it waits for those of the tasks before it.
    pub held_cores: u64,
    /// Who holds them.
    pub holders: BTreeSet<PilotId>,
    /// Pilots that give no cores to other jobs until a task of this one fits, and since which value of
    /// the serving counter. Not more than it has ready tasks.
    pub keepers: BTreeSet<(u64, PilotId)>,
    /// How many pilots that take part can run it.
    pub n_fitting: u64,
    /// Its place in the quotas.
    pub divided: Divided,
    /// Of which platform's profiling run it is: all its tasks are for that.
    pub profiled_on: Option<PlatformId>,
    /// Since when some of it is ready and no platform that may has taken any.
    pub waits_since: Option<Time>,
    /// Where its user may begin nothing more: where there are such platforms it waits for none.
    pub barred: Vec<PlatformId>,
    /// Its user's place in the guide.
    pub user: Option<usize>,
    /// Its priority among the jobs of its user.
    pub priority: i32,
    /// Its priority among the jobs of all users.
    pub rank: i32,
    /// The serving counter when it was last given a bundle.
    pub last_served: u64,
    /// Its place among those of which nothing has been given out.
    pub newcomer: Option<Newcomer>,
}

/// A live pilot.
#[derive(Clone, Debug, Default)]
pub struct PilotState {
    /// What its node has.
    pub capacity: Resources,
    /// Whether it may get new tasks of any job: it has not been told to drain, and no profiling run has its node.
    pub takes_part: bool,
    /// Whether it has said, in this epoch, what it holds.
    pub is_synced: bool,
    /// The number of the question what it holds, if it was asked.
    pub asked: Option<u64>,
    /// The last question that it has answered.
    pub told: u64,
    /// When it was last heard of.
    pub last_heard: Time,
    /// What it holds.
    pub leases: BTreeMap<JobId, TaskSet>,
    /// What was taken from it again and it has not answered for yet: no result of these tasks is of a
    /// lease that it has now, and it gets none of them anew before.
    pub revoked: BTreeMap<JobId, TaskSet>,
    /// Tasks opened again whose result it had when it said what it holds: the result may be of an attempt
    /// from before that, so a failure does not count.
    pub doubtful: BTreeMap<JobId, TaskSet>,
    /// What of it has begun, as last told.
    pub running: BTreeMap<JobId, TaskSet>,
    /// Whose tasks are on its node, where that tells something.
    pub crew: Option<Box<Crew>>,
    /// What its leases leave of its capacity; 0 where they exceed it.
    pub used: Resources,
    /// Its parked pull and until when.
    pub parked: Option<(RequestId, Time)>,
    /// Whether it takes new tasks.
    pub is_hungry: bool,
    /// For which job it keeps the cores that come free.
    pub keeps_for: Option<Keep>,
    /// The job that it was given tasks of last.
    pub previous: Option<JobId>,
    /// Parts sent in this epoch.
    pub n_parts: u64,
    /// Parts that it has not confirmed.
    pub unconfirmed: Vec<Part>,
    /// The highest number of a part that was confirmed.
    pub confirmed: u64,
    /// The highest number of a pull of its process, where it counts them.
    pub last_pull: u64,
    /// Tasks that it said to hold and was not leased, until it has answered for them.
    pub disowned: BTreeMap<JobId, TaskSet>,
    /// Whether it was told to those who watch that what it says cannot be.
    pub is_doubt_told: bool,
    /// When somebody else came with its join token last.
    pub second_join_at: Option<Time>,
    /// What it must be told.
    pub commands: Vec<PilotCommand>,
    /// Jobs whose templates it has been sent.
    pub templates: BTreeSet<JobId>,
    /// Tasks that came to it from other pilots since the manager started.
    pub n_taken: u64,
    /// Tasks that went from it to others since then.
    pub n_given: u64,
    /// How often it was asked for tasks in the name of others since it last gave or got some.
    pub n_asked_in_vain: u32,
    /// Since when it holds nothing.
    pub idle_since: Option<Time>,
    /// Node failures in a row.
    pub n_node_failures: u32,
    /// Whether it fails what others can do, as far as can be told: it gets one task at a time.
    pub is_doubted: bool,
    /// … and nothing before this time.
    pub paused_until: Option<Time>,
    /// How often it has been made to pause since its last success.
    pub n_pauses: u32,
    /// What its job had come to when it began to fail.
    pub row_began: Option<RowBegan>,
    /// When its timer is due.
    pub timer_at: Option<Time>,
}

/// A pilot keeps the cores that come free for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// For which one.
    pub job: JobId,
    /// Since which value of the serving counter.
    pub since: u64,
    /// When what the pilot held then is expected to have ended.
    pub until: Time,
}

/// Listings of a platform that failed in a row.
#[derive(Clone, Debug)]
pub struct Unlisted {
    /// Why the last of them failed.
    pub what: String,
    /// How many.
    pub n: u32,
    /// When the first of them failed.
    pub since: Time,
}

/// A platform's fortunes.
#[derive(Clone, Debug, Default)]
pub struct PlatformState {
    /// Whether the operator has attached it since this start; nothing is asked of it before.
    pub is_attached: bool,
    /// Failures in a row.
    pub n_failures: u32,
    /// Nothing is asked of it before this time.
    pub blocked_until: Time,
    /// When it last failed.
    pub failed_at: Time,
    /// Whether since then jobs came to nothing that it had accepted, and not only submissions failed.
    pub ends_jobs: bool,
    /// When a pilot last came of a job of it.
    pub came_at: Option<Time>,
    /// When a listing last showed that a job of it has waited in its queue for long: it takes jobs, and begins them later.
    pub queued_at: Option<Time>,
    /// The last failure, in the platform's words.
    pub last_failure: Option<String>,
    /// The limit by which it took no more jobs when it was last asked, in its words.
    pub full: Option<String>,
    /// Its last listings that failed; `None`: the last one did not.
    pub unlisted: Option<Unlisted>,
    /// Why its connection waits for a person; `None`: it does not.
    pub waits_for_person: Option<String>,
    /// When its timer is due.
    pub timer_at: Option<Time>,
    /// When it was last looked at which of its pilots most tasks wait.
    pub hunted_at: Option<Time>,
    /// When its listing was last asked for.
    pub listed_at: Option<Time>,
    /// How busy it is, by its own word, and when it said so.
    pub load: Option<(QueueLoad, Time)>,
    /// When it was last asked that.
    pub load_asked_at: Option<Time>,
    /// Since when more of its allocations wait than there is work for.
    pub unneeded_since: Option<Time>,
    /// What its vCPUs have been like.
    pub watch: Watch,
    /// Its pilots that ended before they had done anything.
    pub short_lived: ShortLived,
}

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// A task may be tried again.
    Retry(TaskId),
    /// A parked pull ends, or a pilot has been silent too long.
    Pilot(PilotId),
    /// The policies are asked anew.
    Guide,
    /// What was measured of neighbours is written down.
    Measured,
    /// Tasks that have failed and wait for other pilots are looked at.
    Retries,
    /// A platform is looked at.
    Platform(PlatformId),
    /// A platform's profiling run may be over.
    Profiling(PlatformId),
    /// How many vCPUs a platform's cores stand for is decided.
    Scaling(PlatformId),
    /// The grace period after a restart ends.
    Grace,
}

impl Volatile {
    /// What is true right after a restart: no leases, pilots not yet heard of, due retries armed.
    pub fn rebuild(durable: &Durable, epoch: u64, now: Time) -> Volatile {
        let graph = Graph::rebuild(durable);
        let mut volatile = Volatile { epoch, now, started_at: now, graph, ..Volatile::default() };
        for (id, job) in durable.jobs().iter().filter(|(_, job)| job.ended_at.is_none()) {
            let mut ready = job.open.clone();
            if let Some(blocked) = volatile.graph.blocked(*id) {
                ready.remove_all(blocked);
            }
            for (index, trouble) in &job.troubled {
                if trouble.retry_at > now && ready.remove(*index) {
                    volatile
                        .timers
                        .insert((trouble.retry_at, Timer::Retry(TaskId { job: *id, index: *index })));
                }
            }
            volatile.add_job(*id, job);
            volatile.suspect_blamed(*id, job);
            volatile.set_last_chances(*id, job);
            volatile.add_ready(*id, &ready);
            if !job.failed_at.is_empty() {
                volatile.note_retried(*id, now);
            }
        }
        for (id, _) in durable.pilots().iter().filter(|(_, pilot)| pilot.is_live()) {
            volatile.add_pilot(durable, *id, PilotState { last_heard: now, ..PilotState::default() });
        }
        for id in durable.platforms().keys() {
            volatile.platforms.insert(*id, PlatformState::default());
        }
        volatile
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
    pub fn is_sooner(&self, keep: Keep, keeper: PilotId, now: Time) -> bool {
        let kept = self.pilots.get(&keeper).and_then(|state| state.keeps_for);
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

impl JobLeases {
    /// How many slots its tasks hold, if each should have so many: those that run, however few wait.
    pub fn n_slots(&self, depth: u64) -> u64 {
        self.n_leased.div_ceil(depth).max(self.n_running)
    }

    /// Cores that pilots keep for it.
    pub fn kept_cores(&self, job: &Job) -> u64 {
        (self.keepers.len() as u64).saturating_mul(u64::from(job.request.needs.resources.cores))
    }
}

impl PilotState {
    /// How many tasks it holds.
    pub fn n_leased(&self) -> u64 {
        self.leases.values().map(TaskSet::len).sum()
    }

    /// Whether a failure of the task may be from before it was opened again.
    pub fn is_doubtful(&self, task: TaskId) -> bool {
        self.doubtful.get(&task.job).is_some_and(|tasks| tasks.contains(task.index))
    }

    /// Whether it holds this task.
    pub fn holds(&self, task: TaskId) -> bool {
        self.leases.get(&task.job).is_some_and(|tasks| tasks.contains(task.index))
    }
}
