//! A live pilot: its leases, and the state that is known since the manager started.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        interface::RequestId,
        live::pilots::{doubts::RowBegan, node_applications::NodeApplications, reservation::Reservation},
    },
    ids::{JobId, TaskId},
    pull::{Part, PilotCommand},
    ranges::TaskSet,
    resources::Resources,
    time::Time,
};

/// A live pilot.
#[derive(Clone, Debug, Default)]
pub struct PilotState {
    /// The resources of its node.
    pub capacity: Resources,
    /// Whether it may get new tasks of any job: it does not drain, and no profiling run has its node.
    pub takes_part: bool,
    /// Whether it has said in this epoch what it holds.
    pub is_synced: bool,
    /// The number of the last question to it about what it holds.
    pub asked: Option<u64>,
    /// The number of the last such question that it has answered.
    pub told: u64,
    /// The time of its last message.
    pub last_heard: Time,
    /// The tasks that are leased to it.
    pub leases: BTreeMap<JobId, TaskSet>,
    /// Revoked tasks that it has not answered for: their results belong to no present lease, and it cannot
    /// get them before that.
    pub revoked: BTreeMap<JobId, TaskSet>,
    /// Reopened tasks that it had a result of when it said what it holds: the result may be of an attempt
    /// from before that, so a failure does not count.
    pub stale_failures: BTreeMap<JobId, TaskSet>,
    /// Leased tasks that it last reported as running.
    pub running: BTreeMap<JobId, TaskSet>,
    /// The applications on its node, if they teach something about co-runners.
    pub crew: Option<Box<NodeApplications>>,
    /// The resources that its leases need.
    pub used: Resources,
    /// The request of its parked pull, and the time at which that ends.
    pub parked: Option<(RequestId, Time)>,
    /// Whether it takes new tasks.
    pub is_hungry: bool,
    /// The job for which it keeps the cores that come free.
    pub reservation: Option<Reservation>,
    /// The job that it was last given tasks of.
    pub previous: Option<JobId>,
    /// Number of parts sent in this epoch.
    pub n_parts: u64,
    /// The parts that it has not confirmed.
    pub unconfirmed: Vec<Part>,
    /// The highest number of a confirmed part.
    pub confirmed: u64,
    /// The highest number of a pull of its process, if it numbers them.
    pub last_pull: u64,
    /// Tasks that it said it holds without a lease, until it has answered for them.
    pub disowned: BTreeMap<JobId, TaskSet>,
    /// Whether a notice has told that it says something impossible.
    pub is_doubt_told: bool,
    /// The last time at which another process came with its join token.
    pub second_join_at: Option<Time>,
    /// The commands to send to it.
    pub commands: Vec<PilotCommand>,
    /// The jobs whose templates it has.
    pub templates: BTreeSet<JobId>,
    /// Number of tasks that other pilots gave it since the manager started.
    pub n_taken: u64,
    /// Number of tasks that it gave to other pilots since then.
    pub n_given: u64,
    /// How often it was asked to give tasks to others since it last gave or got some.
    pub n_failed_steal_requests: u32,
    /// The time since when it holds nothing.
    pub idle_since: Option<Time>,
    /// Number of node failures in a row.
    pub n_node_failures: u32,
    /// Whether it is a suspected black hole: it gets one task at a time.
    pub is_doubted: bool,
    /// The time before which it gets nothing, as a suspected black hole.
    pub paused_until: Option<Time>,
    /// Number of such pauses since its last success.
    pub n_pauses: u32,
    /// The counts of the failing job when it began to fail.
    pub row_began: Option<RowBegan>,
    /// The time at which its timer is due.
    pub timer_at: Option<Time>,
}

impl PilotState {
    /// Returns the number of tasks that it holds.
    pub fn n_leased(&self) -> u64 {
        self.leases.values().map(TaskSet::len).sum()
    }

    /// Returns whether a failure of the task may be from before the task was reopened.
    pub fn is_doubtful(&self, task: TaskId) -> bool {
        self.stale_failures.get(&task.job).is_some_and(|tasks| tasks.contains(task.index))
    }

    /// Returns whether it holds this task.
    pub fn holds(&self, task: TaskId) -> bool {
        self.leases.get(&task.job).is_some_and(|tasks| tasks.contains(task.index))
    }
}

impl PilotState {
    /// Returns the number of free cores by which the pilot is listed among the takers; `None`: it is not
    /// listed.
    pub fn free_cores_listed(&self) -> Option<u32> {
        let takes = self.parked.is_some() && self.is_hungry;
        takes.then(|| self.capacity.cores.saturating_sub(self.used.cores))
    }
}
