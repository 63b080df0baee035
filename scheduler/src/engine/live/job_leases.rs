//! The open tasks of a job: those that are ready, and those that pilots hold.

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

/// Who holds how much of a job.
#[derive(Clone, Debug, Default)]
pub struct JobLeases {
    /// Open tasks that no pilot holds and that need not wait.
    pub ready: TaskSet,
    /// The same by their estimates, where bundles are packed by them.
    pub by_size: Option<Box<ReadyByEstimate>>,
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
    pub reservations: BTreeSet<(u64, PilotId)>,
    /// How many pilots that take part can run it.
    pub n_fitting: u64,
    /// Its place in the quotas.
    pub divided: QuotaPlace,
    /// Of which platform's profiling run it is: all its tasks are for that.
    pub profiled_on: Option<PlatformId>,
    /// Since when some of it is ready and no platform that may has taken any.
    pub waits_since: Option<Time>,
    /// Where its user may begin nothing more: where there are such platforms it waits for none.
    pub over_budget: Vec<PlatformId>,
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

impl JobLeases {
    /// What the platform of that column of the quotas may take of the job.
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

    /// How many slots its tasks hold, if each should have so many: those that run, however few wait.
    pub fn n_slots(&self, depth: u64) -> u64 {
        self.n_leased.div_ceil(depth).max(self.n_running)
    }

    /// Cores that pilots keep for it.
    pub fn kept_cores(&self, job: &Job) -> u64 {
        (self.reservations.len() as u64).saturating_mul(u64::from(job.request.needs.resources.cores))
    }
}
