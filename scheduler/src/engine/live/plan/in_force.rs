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

/// No guide is replaced sooner than it takes some thirty times to be made: so long for each job and each cell of its
/// tables (`tests/bench/run layers`: 6 ms at the most, and none is replaced for 160).
pub(in crate::engine) const LASTS_AT_LEAST: Span = Span(5);

/// Cells that count for one of the quotas: each is worked out again and again.
pub(in crate::engine) const N_ROUNDS: usize = 30;

/// … nor, if it takes long, than after so long.
pub(in crate::engine) const LASTS_LONG: Span = Span::from_secs(1);

/// See the module. Empty while the policies need none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Of the question that it answers.
    pub(in crate::engine) number: u64,
    /// When that was asked.
    pub(in crate::engine) made_at: Option<Time>,
    /// Each job's place in the quotas, of those of that time, by their numbers.
    pub(in crate::engine) places: Vec<(JobId, QuotaPlace)>,
    /// Cores of each platform that are meant for each user, by their places.
    pub(in crate::engine) shares: BTreeMap<PlatformId, Vec<u64>>,
    /// How much each platform should serve each application.
    pub(in crate::engine) scores: BTreeMap<PlatformId, BTreeMap<String, Score>>,
    /// The same by row of the quotas.
    pub(in crate::engine) scores_by_row: BTreeMap<PlatformId, Vec<Score>>,
    /// Users, by their places in [`crate::engine::live::job_leases::JobLeases::user`].
    pub(in crate::engine) users: Vec<String>,
    /// Which of them had tasks that waited: the others have no share.
    pub(in crate::engine) queued: Vec<bool>,
    /// How many tasks are meant for each platform.
    pub quotas: QuotaTable,
    /// Whose tasks each node is meant for.
    pub nodes: Arc<NodeMixes>,
    pub(in crate::engine) favourites: Option<Arc<Favourites>>,
    /// How long it is to last at least.
    pub(in crate::engine) lasts: Span,
    /// Whether there was anybody to be served.
    pub(in crate::engine) is_of_use: bool,
}

/// Whose favourite each platform was, of those users and platforms, for PAF.
pub(in crate::engine) type Favourites = (Vec<String>, Vec<PlatformId>, Table<bool>);

impl Plan {
    /// Cores of the platform that are meant for the user; `None`: as many as there are.
    pub fn share(&self, platform: PlatformId, user: &str) -> Option<u64> {
        self.shares.get(&platform)?.get(self.place_of(user)?).copied()
    }

    /// How many users have a place.
    pub fn n_users(&self) -> usize {
        self.users.len()
    }

    /// The user's place.
    pub fn place_of(&self, user: &str) -> Option<usize> {
        self.users.binary_search_by(|held| held.as_str().cmp(user)).ok()
    }

    /// How much the platform should serve the application; what nobody has scored comes last.
    pub fn score(&self, platform: PlatformId, application: &str) -> Score {
        let known = self.scores.get(&platform).and_then(|scores| scores.get(application));
        known.copied().unwrap_or(Score(f64::NEG_INFINITY, 0.0))
    }

    /// How much the platform should serve each row of the quotas; `None` where that is not asked.
    pub fn scores_by_row(&self, platform: PlatformId) -> Option<&[Score]> {
        self.scores_by_row.get(&platform).map(Vec::as_slice)
    }

    /// Whether it divides platforms among users.
    pub fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Cores of the platform that are meant for each user, by their places; `None`: all have as many as there are.
    pub fn shares(&self, platform: PlatformId) -> Option<&[u64]> {
        self.shares.get(&platform).map(Vec::as_slice)
    }

    /// The same by name.
    pub fn shares_by_name(&self, platform: PlatformId) -> BTreeMap<String, u64> {
        let shares = self.shares(platform).unwrap_or_default();
        self.users.iter().cloned().zip(shares.iter().copied()).collect()
    }
}
