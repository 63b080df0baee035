//! A live pilot: its leases, and all that is known of it since the manager started.

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
    pub stale_failures: BTreeMap<JobId, TaskSet>,
    /// What of it has begun, as last told.
    pub running: BTreeMap<JobId, TaskSet>,
    /// Whose tasks are on its node, where that tells something.
    pub crew: Option<Box<NodeApplications>>,
    /// What its leases leave of its capacity; 0 where they exceed it.
    pub used: Resources,
    /// Its parked pull and until when.
    pub parked: Option<(RequestId, Time)>,
    /// Whether it takes new tasks.
    pub is_hungry: bool,
    /// For which job it keeps the cores that come free.
    pub reservation: Option<Reservation>,
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
    pub n_failed_steal_requests: u32,
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

impl PilotState {
    /// How many tasks it holds.
    pub fn n_leased(&self) -> u64 {
        self.leases.values().map(TaskSet::len).sum()
    }

    /// Whether a failure of the task may be from before it was opened again.
    pub fn is_doubtful(&self, task: TaskId) -> bool {
        self.stale_failures.get(&task.job).is_some_and(|tasks| tasks.contains(task.index))
    }

    /// Whether it holds this task.
    pub fn holds(&self, task: TaskId) -> bool {
        self.leases.get(&task.job).is_some_and(|tasks| tasks.contains(task.index))
    }
}

impl PilotState {
    /// The cores under which it belongs among the takers, if it does.
    pub fn free_cores_listed(&self) -> Option<u32> {
        let takes = self.parked.is_some() && self.is_hungry;
        takes.then(|| self.capacity.cores.saturating_sub(self.used.cores))
    }
}
