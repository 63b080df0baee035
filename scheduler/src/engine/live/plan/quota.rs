//! Quotas: the numbers of ready tasks that are meant for each platform. Layer `distribution` sets them, and
//! pilots use them up as they take tasks; a platform without any left takes over tasks of the platform with
//! the most.

use crate::{
    engine::record::weight_policy::{TaskClass, WeightPolicyState},
    ids::PlatformId,
    policy::distribution::Weights,
    time::{Span, Time},
};

/// A platform whose error rate exceeds another's by more than this is throttled to a few probes.
pub(in crate::engine) const SHUNNED_FROM: f64 = 0.25;

/// The highest error rate that counts: a platform without any tasks could not show that it has recovered.
const ERROR_RATE_MOST: f64 = 0.95;

/// A job's place in the quota table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaPlace {
    /// The job came after the plan input; where there are quotas, none of its tasks are leased.
    #[default]
    NotYet,
    /// There are too many task classes: any platform may take the job's tasks.
    Left,
    /// The row of the job's task class.
    In(usize),
}

/// The quota table. Empty where there is nothing to choose.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QuotaTable {
    /// The platforms of the columns.
    pub(in crate::engine) platforms: Vec<PlatformId>,
    /// The rows.
    pub(in crate::engine) rows: Vec<ClassQuota>,
    /// The state of a policy that carries over from job to job.
    pub(in crate::engine) law: Option<WeightPolicyState>,
    /// Seconds until all ready tasks have started, by estimate.
    pub(in crate::engine) last_end_s: f64,
    /// The time at which the quotas must be computed anew.
    pub(in crate::engine) due_at: Option<Time>,
}

/// The quotas of a task class.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassQuota {
    pub(in crate::engine) kind: TaskClass,
    pub(in crate::engine) weights: Weights,
    pub(in crate::engine) cells: Vec<QuotaCell>,
    /// The wait after which any platform may take the tasks.
    pub(in crate::engine) patience: Span,
    /// Whether turns of users alone would have started all tasks sooner: then every platform may take a task
    /// on its user's turn.
    pub(in crate::engine) fair_share_only: bool,
}

/// The quota of a task class on a platform, and the numbers behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuotaCell {
    /// Number of tasks that the platform may still take.
    pub n_left: u64,
    /// A task that starts there after this time would end after all that other platforms could do.
    pub begin_by: Option<Time>,
    /// Whether the platform is throttled because more tasks fail there than elsewhere: it takes only its
    /// quota, as probes.
    pub is_shunned: bool,
    /// The time of the last probe.
    pub tried_at: Option<Time>,
    /// Number of tasks that its pilots can run at a time.
    pub n_slots: u64,
    /// The runtime of a task there in seconds, if known.
    pub runtime_s: Option<f64>,
    /// Whether the runtime is declared and no task has run there.
    pub is_declared: bool,
    /// The runtime guessed from other applications there, where none is known and a guess was needed.
    pub guess_s: Option<f64>,
    /// The part of attempts there that fail, for any reason, 0 to 1.
    pub error_rate: f64,
    /// Number of successful attempts there since the last failed one.
    pub n_since_loss: u64,
}

/// The tasks of a class that a platform may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Number of tasks that are meant for it; 0: it takes over tasks that were meant for others.
    pub n_left: u64,
    /// Whether it gets only probes.
    pub is_shunned: bool,
}

/// The tasks of a job that a platform may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entitlement {
    /// Any: there are no quotas for it.
    Anything,
    /// None: they would end after all that others could do meanwhile, the platform has used up its probes, or
    /// the job is newer than the plan.
    Nothing,
    /// A quota.
    Quota(Quota),
}

impl QuotaTable {
    /// Returns the platform's column, for [`JobLeases::meant`]; `None`: it has no quotas.
    pub fn column(&self, platform: PlatformId) -> Option<usize> {
        self.platforms.iter().position(|held| *held == platform)
    }

    /// Returns the number of cells.
    pub fn n_cells(&self) -> usize {
        self.rows.len() * self.platforms.len()
    }

    /// Returns the row of a task class.
    pub(in crate::engine) fn row_of(&self, kind: &TaskClass) -> Option<usize> {
        self.rows.iter().position(|row| row.kind == *kind)
    }

    /// Returns whether tasks fail much more often there than on another platform. Platforms in `over_budget`
    /// do not count: a task does not wait for a platform on which its user may start nothing.
    pub(in crate::engine) fn errs_more(
        &self,
        row: &ClassQuota,
        column: usize,
        over_budget: &[PlatformId],
    ) -> bool {
        let open = row.cells.iter().zip(&self.platforms).filter(|(_, id)| !over_budget.contains(id));
        let least = QuotaCell::least_errors(open.map(|(cell, _)| cell));
        row.cells.get(column).is_some_and(|cell| cell.error_rate > least + SHUNNED_FROM)
    }

    /// Returns whether the platform should take tasks of the row: it is neither throttled nor too late.
    pub fn is_open(&self, column: usize, row: usize, now: Time) -> bool {
        let cell = self.rows.get(row).and_then(|row| row.cells.get(column));
        cell.is_some_and(|cell| !cell.is_shunned && !cell.is_late(now))
    }

    /// Notes that the vCPU ratio of the platform has risen: some policies give it weight for that.
    pub fn note_raised(&mut self, platform: PlatformId) {
        let has_risen: Vec<bool> = self.platforms.iter().map(|held| *held == platform).collect();
        if let Some(state) = self.law.as_mut().filter(|_| has_risen.contains(&true)) {
            state.law.error(&has_risen);
        }
    }

    /// Uses up quotas for tasks that the platform has taken: its own, then those of the platforms with the
    /// most left.
    pub fn take(&mut self, column: usize, row: usize, n_tasks: u64) {
        let Some(row) = self.rows.get_mut(row) else { return };
        let own = row.cells.get_mut(column).map_or(0, |cell| cell.less(n_tasks));
        row.take_over(n_tasks - own);
    }
}

impl ClassQuota {
    /// Returns the number of tasks that are meant for some platform.
    pub fn n_left(&self) -> u64 {
        self.cells.iter().map(|cell| cell.n_left).fold(0, u64::saturating_add)
    }

    /// Removes tasks from the quotas of the platforms with the most left.
    pub(in crate::engine) fn take_over(&mut self, mut n_tasks: u64) {
        while n_tasks > 0 {
            let fullest = self.cells.iter_mut().max_by_key(|cell| cell.n_left);
            let Some(fullest) = fullest.filter(|cell| cell.n_left > 0) else { return };
            n_tasks -= fullest.less(n_tasks);
        }
    }
}

impl QuotaCell {
    /// Returns the tasks per second that the platform completes; `None`: it has no room, or the runtime is
    /// unknown.
    pub fn rate(&self) -> Option<f64> {
        let runtime_s = self.runtime_s.filter(|_| self.n_slots > 0)?;
        Some(self.n_slots as f64 * self.success_rate() / runtime_s)
    }

    /// Returns the part of attempts that succeed; never too small, so that a platform can show that it has
    /// recovered.
    pub fn success_rate(&self) -> f64 {
        1.0 - if self.is_shunned { ERROR_RATE_MOST } else { self.error_rate.min(ERROR_RATE_MOST) }
    }

    /// Returns the smallest error rate of platforms that have room.
    pub(in crate::engine) fn least_errors<'a>(cells: impl Iterator<Item = &'a QuotaCell>) -> f64 {
        cells.filter(|cell| cell.n_slots > 0).map(|cell| cell.error_rate).fold(1.0, f64::min)
    }

    /// Returns the seconds until a task has succeeded, with one attempt after the other.
    pub fn success_s(&self) -> Option<f64> {
        self.runtime_s.map(|runtime_s| runtime_s / self.success_rate())
    }

    /// Returns whether a task that starts there now would end after all that others could do meanwhile.
    pub fn is_late(&self, now: Time) -> bool {
        self.begin_by.is_some_and(|begin_by| now > begin_by)
    }

    fn less(&mut self, n_tasks: u64) -> u64 {
        let taken = n_tasks.min(self.n_left);
        self.n_left -= taken;
        taken
    }
}
