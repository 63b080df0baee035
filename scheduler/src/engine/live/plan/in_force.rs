//! The plan in force.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    engine::live::plan::{
        node_mix::NodeMixes,
        quota::{QuotaPlace, QuotaTable},
    },
    ids::{JobId, PlatformId},
    policy::{matching::application::Score, table::Table},
    time::{Span, Time},
};

/// The least lifetime of a plan for each job and each cell of its tables. A plan thus lasts some thirty times
/// as long as its computation (`tests/bench/run layers`: 6 ms at most, and no plan is replaced before 160
/// ms).
pub(in crate::engine) const LASTS_AT_LEAST: Span = Span(5);

/// Number of cells that a cell of the quota table counts as: it is computed again and again.
pub(in crate::engine) const N_ROUNDS: usize = 30;

/// The upper bound of that least lifetime.
pub(in crate::engine) const LASTS_LONG: Span = Span::from_secs(1);

/// A plan. Empty while the policies need none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// The number of its plan input.
    pub(in crate::engine) number: u64,
    /// The time of its plan input.
    pub(in crate::engine) made_at: Option<Time>,
    /// The place in the quota table of each job of that time, by job id.
    pub(in crate::engine) places: Vec<(JobId, QuotaPlace)>,
    /// Number of cores of each platform in the fair share of each user, by the users' places.
    pub(in crate::engine) shares: BTreeMap<PlatformId, Vec<u64>>,
    /// The score of each application on each platform: how much the platform should serve it.
    pub(in crate::engine) scores: BTreeMap<PlatformId, BTreeMap<String, Score>>,
    /// The same scores by row of the quota table.
    pub(in crate::engine) scores_by_row: BTreeMap<PlatformId, Vec<Score>>,
    /// The users, by their places in [`crate::engine::live::job_leases::JobLeases::user`].
    pub(in crate::engine) users: Vec<String>,
    /// Whether each of them had waiting tasks: users without have no share.
    pub(in crate::engine) queued: Vec<bool>,
    /// The numbers of tasks that are meant for each platform.
    pub quotas: QuotaTable,
    /// The applications that each node is meant for.
    pub nodes: Arc<NodeMixes>,
    pub(in crate::engine) favourites: Option<Arc<Favourites>>,
    /// The time for which it lasts at least.
    pub(in crate::engine) lasts: Span,
    /// Whether there was any user to serve.
    pub(in crate::engine) is_of_use: bool,
}

/// The favourite platforms (columns) of users (rows), for the policy PAF.
pub(in crate::engine) type Favourites = (Vec<String>, Vec<PlatformId>, Table<bool>);

impl Plan {
    /// Returns the cores of the platform in the user's fair share; `None`: there is no limit.
    pub fn share(&self, platform: PlatformId, user: &str) -> Option<u64> {
        self.shares.get(&platform)?.get(self.place_of(user)?).copied()
    }

    /// Returns the number of users with a place.
    pub fn n_users(&self) -> usize {
        self.users.len()
    }

    /// Returns the user's place.
    pub fn place_of(&self, user: &str) -> Option<usize> {
        self.users.binary_search_by(|held| held.as_str().cmp(user)).ok()
    }

    /// Returns the score of the application on the platform; applications without a score come last.
    pub fn score(&self, platform: PlatformId, application: &str) -> Score {
        let known = self.scores.get(&platform).and_then(|scores| scores.get(application));
        known.copied().unwrap_or(Score(f64::NEG_INFINITY, 0.0))
    }

    /// Returns the scores on the platform by row of the quota table; `None`: the policy needs none.
    pub fn scores_by_row(&self, platform: PlatformId) -> Option<&[Score]> {
        self.scores_by_row.get(&platform).map(Vec::as_slice)
    }

    /// Returns whether the plan has fair shares.
    pub fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Returns the cores of the platform in the fair share of each user, by place; `None`: there are no
    /// limits.
    pub fn shares(&self, platform: PlatformId) -> Option<&[u64]> {
        self.shares.get(&platform).map(Vec::as_slice)
    }

    /// Returns the same fair shares by user name.
    pub fn shares_by_name(&self, platform: PlatformId) -> BTreeMap<String, u64> {
        let shares = self.shares(platform).unwrap_or_default();
        self.users.iter().cloned().zip(shares.iter().copied()).collect()
    }
}
