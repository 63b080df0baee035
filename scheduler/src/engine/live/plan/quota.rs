//! Quotas: how many ready tasks are meant for each platform. What the law of distribution says, used up as pilots
//! take tasks; a platform that has used up its own takes over from the fullest.

use crate::{
    engine::record::weight_policy::{TaskClass, WeightPolicyState},
    ids::PlatformId,
    policy::distribution::Weights,
    time::{Span, Time},
};

/// A platform that fails more often than another, by so much, gets only as many as show whether it is mended.
pub(in crate::engine) const SHUNNED_FROM: f64 = 0.25;

/// No error rate counts for more: a platform that is given nothing any more could not show that it has recovered.
const ERROR_RATE_MOST: f64 = 0.95;

/// A job's place in the quotas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaPlace {
    /// It came after they were made; nothing of it is given out where there are some.
    #[default]
    NotYet,
    /// There are too many kinds: whoever pulls gets it.
    Left,
    /// The row.
    In(usize),
}

/// See the module. Empty where there is nothing to choose.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QuotaTable {
    /// Columns.
    pub(in crate::engine) platforms: Vec<PlatformId>,
    /// Rows.
    pub(in crate::engine) rows: Vec<ClassQuota>,
    /// The state of a law that goes on from job to job.
    pub(in crate::engine) law: Option<WeightPolicyState>,
    /// Seconds after which all that is ready has begun, as far as that can be told.
    pub(in crate::engine) last_end_s: f64,
    /// When they should be made anew at the latest.
    pub(in crate::engine) due_at: Option<Time>,
}

/// The quotas of a kind of task.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassQuota {
    pub(in crate::engine) kind: TaskClass,
    pub(in crate::engine) weights: Weights,
    pub(in crate::engine) cells: Vec<QuotaCell>,
    /// Who has waited for so long is free for all.
    pub(in crate::engine) patience: Span,
    /// Its users would have begun it all sooner by turns alone: wherever it is their turn it is meant for there.
    pub(in crate::engine) fair_share_only: bool,
}

/// The quota of a kind of task on a platform, and what it came from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuotaCell {
    /// Tasks that it may still take.
    pub n_left: u64,
    /// What begins there later ends after all that others could do meanwhile.
    pub begin_by: Option<Time>,
    /// It fails more often than others: it takes what is meant for it, to show whether it is mended, and no more.
    pub is_shunned: bool,
    /// When it was last given some for that.
    pub tried_at: Option<Time>,
    /// Tasks that its pilots can run at a time.
    pub n_slots: u64,
    /// Seconds that one takes there, as far as is known.
    pub runtime_s: Option<f64>,
    /// … as was said of it: none has run there.
    pub is_declared: bool,
    /// … by what others take there, where that is not known and was asked.
    pub guess_s: Option<f64>,
    /// The part of attempts there that fail, whoever's fault it is, 0 to 1.
    pub error_rate: f64,
    /// Attempts that have succeeded there since one last failed.
    pub n_since_loss: u64,
}

/// What a platform may take of a kind of task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Tasks meant for it; 0: what it takes was meant for others.
    pub n_left: u64,
    /// Whether it gets only what shows whether it is mended.
    pub is_shunned: bool,
}

/// What a platform may take of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entitlement {
    /// Whatever there is: nobody says.
    Anything,
    /// Nothing: what it begins now would end after all that others could do meanwhile, it has had what it may spoil,
    /// or it is not known yet.
    Nothing,
    /// So much.
    Quota(Quota),
}

impl QuotaTable {
    /// The platform's place, for [`JobLeases::meant`]; `None`: it has no quotas.
    pub fn column(&self, platform: PlatformId) -> Option<usize> {
        self.platforms.iter().position(|held| *held == platform)
    }

    /// How many quotas there are.
    pub fn n_cells(&self) -> usize {
        self.rows.len() * self.platforms.len()
    }

    /// The row of a kind.
    pub(in crate::engine) fn row_of(&self, kind: &TaskClass) -> Option<usize> {
        self.rows.iter().position(|row| row.kind == *kind)
    }

    /// Whether tasks fail much more often there than on another platform, `over_budget` ones left out: what may not begin
    /// where it would not fail waits for nothing.
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

    /// Whether the platform is one of those that should take some of the kind.
    pub fn is_open(&self, column: usize, row: usize, now: Time) -> bool {
        let cell = self.rows.get(row).and_then(|row| row.cells.get(column));
        cell.is_some_and(|cell| !cell.is_shunned && !cell.is_late(now))
    }

    /// A core of the platform stands for more vCPUs than before: some laws give it weight for that.
    pub fn note_raised(&mut self, platform: PlatformId) {
        let has_risen: Vec<bool> = self.platforms.iter().map(|held| *held == platform).collect();
        if let Some(state) = self.law.as_mut().filter(|_| has_risen.contains(&true)) {
            state.law.error(&has_risen);
        }
    }

    /// The platform has taken so many: of its own, and what they did not suffice for of the fullest.
    pub fn take(&mut self, column: usize, row: usize, n_tasks: u64) {
        let Some(row) = self.rows.get_mut(row) else { return };
        let own = row.cells.get_mut(column).map_or(0, |cell| cell.less(n_tasks));
        row.take_over(n_tasks - own);
    }
}

impl ClassQuota {
    /// Tasks that are meant for some platform.
    pub fn n_left(&self) -> u64 {
        self.cells.iter().map(|cell| cell.n_left).fold(0, u64::saturating_add)
    }

    /// So many are gone: of those who have the most left.
    pub(in crate::engine) fn take_over(&mut self, mut n_tasks: u64) {
        while n_tasks > 0 {
            let fullest = self.cells.iter_mut().max_by_key(|cell| cell.n_left);
            let Some(fullest) = fullest.filter(|cell| cell.n_left > 0) else { return };
            n_tasks -= fullest.less(n_tasks);
        }
    }
}

impl QuotaCell {
    /// Tasks a second that the platform finishes for good; `None` where it has room for none, or nothing is known.
    pub fn rate(&self) -> Option<f64> {
        let runtime_s = self.runtime_s.filter(|_| self.n_slots > 0)?;
        Some(self.n_slots as f64 * self.success_rate() / runtime_s)
    }

    /// The part of attempts that succeed; not too little, so that it can show that it has recovered.
    pub fn success_rate(&self) -> f64 {
        1.0 - if self.is_shunned { ERROR_RATE_MOST } else { self.error_rate.min(ERROR_RATE_MOST) }
    }

    /// The smallest error rate of platforms that have room.
    pub(in crate::engine) fn least_errors<'a>(cells: impl Iterator<Item = &'a QuotaCell>) -> f64 {
        cells.filter(|cell| cell.n_slots > 0).map(|cell| cell.error_rate).fold(1.0, f64::min)
    }

    /// Seconds until one has succeeded, one attempt after the other.
    pub fn success_s(&self) -> Option<f64> {
        self.runtime_s.map(|runtime_s| runtime_s / self.success_rate())
    }

    /// Whether a task that begins there now would end after all that others could do meanwhile.
    pub fn is_late(&self, now: Time) -> bool {
        self.begin_by.is_some_and(|begin_by| now > begin_by)
    }

    fn less(&mut self, n_tasks: u64) -> u64 {
        let taken = n_tasks.min(self.n_left);
        self.n_left -= taken;
        taken
    }
}
