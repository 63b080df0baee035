//! The open tasks of a job: ready ones, and those that pilots hold.

use std::collections::BTreeSet;

use crate::{
    engine::{
        live::{
            plan::quota::{Entitlement, Quota, QuotaPlace, QuotaTable},
            ready::{by_estimate::ReadyByEstimate, waiting_line::Newcomer},
        },
        state::job::Job,
    },
    ids::{PilotId, PlatformId},
    ranges::TaskSet,
    time::Time,
};

/// The open tasks of a job, and the pilots that hold them.
#[derive(Clone, Debug, Default)]
pub struct JobLeases {
    /// Open tasks that no pilot holds and that wait for nothing.
    pub ready: TaskSet,
    /// The ready tasks by estimate, if bundles are packed by estimates.
    pub by_size: Option<Box<ReadyByEstimate>>,
    /// Number of tasks that pilots hold.
    pub n_leased: u64,
    /// Number of held tasks that are known to have started.
    pub n_running: u64,
    /// Number of cores that the held tasks use. Prefetched tasks use none: they wait for the cores of earlier
    /// tasks.
    pub held_cores: u64,
    /// The pilots that hold tasks.
    pub holders: BTreeSet<PilotId>,
    /// The pilots that give no cores to other jobs until a task of this job fits, each with the serving
    /// counter at that time. There are at most as many as ready tasks.
    pub reservations: BTreeSet<(u64, PilotId)>,
    /// Number of pilots taking part that can run the job.
    pub n_fitting: u64,
    /// The job's place in the quota table.
    pub divided: QuotaPlace,
    /// The platform whose profiling run the job belongs to, with all its tasks.
    pub profiled_on: Option<PlatformId>,
    /// The time since when ready tasks wait and no platform that should take them has taken any.
    pub waits_since: Option<Time>,
    /// The platforms on which the job's user has used up the core-hours: if there are any, the job waits for
    /// no platform.
    pub over_budget: Vec<PlatformId>,
    /// The place of the job's user in the plan.
    pub user: Option<usize>,
    /// The priority among the jobs of its user.
    pub priority: i32,
    /// The priority among the jobs of all users.
    pub rank: i32,
    /// The serving counter at the job's last bundle.
    pub last_served: u64,
    /// The job's place among jobs of which no task has been leased yet.
    pub newcomer: Option<Newcomer>,
}

impl JobLeases {
    /// Returns the tasks of the job that the platform with this column of the quota table may take.
    pub fn meant(&self, quotas: &QuotaTable, column: Option<usize>, now: Time) -> Entitlement {
        let (column, row) = match (column, self.divided) {
            (Some(_), QuotaPlace::NotYet) => return Entitlement::Nothing,
            (Some(column), QuotaPlace::In(row)) => (column, row),
            _ => return Entitlement::Anything,
        };
        let found = quotas.rows.get(row).and_then(|row| Some((row, row.cells.get(column)?)));
        let Some((row, cell)) = found else { return Entitlement::Anything };
        let is_shunned = cell.is_shunned && quotas.errs_more(row, column, &self.over_budget);
        if row.fair_share_only && !is_shunned {
            return Entitlement::Quota(Quota { n_left: row.n_left().max(1), is_shunned: false });
        }
        let has_waited = self.waits_since.is_some_and(|since| now.since(since) >= row.patience);
        let is_free = has_waited || !self.over_budget.is_empty();
        match !is_free && cell.is_late(now) || is_shunned && cell.n_left == 0 {
            true => Entitlement::Nothing,
            false => Entitlement::Quota(Quota { n_left: cell.n_left, is_shunned }),
        }
    }

    /// Returns the number of slots that the held tasks use at `depth` tasks per slot; at least the number of
    /// running tasks.
    pub fn n_slots(&self, depth: u64) -> u64 {
        self.n_leased.div_ceil(depth).max(self.n_running)
    }

    /// Returns the number of cores that pilots reserve for the job.
    pub fn kept_cores(&self, job: &Job) -> u64 {
        (self.reservations.len() as u64).saturating_mul(u64::from(job.request.needs.resources.cores))
    }
}
