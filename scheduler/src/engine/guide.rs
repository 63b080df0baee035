//! What the policies that look at everything say, for a while: worked out when users or pilots have come or
//! gone, and looked up at each pull.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    divide,
    nodes::{Nodes, clusters},
    question::{Ground, Open, Question},
    quotas::{Divided, Quotas, Row},
    runtimes::Runtimes,
};
use crate::{
    ids::{JobId, PlatformId},
    policy::{
        allocation::Demand,
        matching::application::{ByApplication, Importance, Score},
        table::Table,
    },
    time::{Span, Time},
};

/// No guide is replaced sooner than it takes some thirty times to be made: so long for each job and each cell of its
/// tables (`tests/bench/run layers`: 6 ms at the most, and none is replaced for 160).
const LASTS_AT_LEAST: Span = Span(5);
/// Cells that count for one of the quotas: each is worked out again and again.
const N_ROUNDS: usize = 30;
/// … nor, if it takes long, than after so long.
const LASTS_LONG: Span = Span::from_secs(1);

/// See the module. Empty while the policies need none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Guide {
    /// Of the question that it answers.
    pub(super) number: u64,
    /// When that was asked.
    pub(super) made_at: Option<Time>,
    /// Each job's place in the quotas, of those of that time, by their numbers.
    pub(super) places: Vec<(JobId, Divided)>,
    /// Cores of each platform that are meant for each user, by their places.
    shares: BTreeMap<PlatformId, Vec<u64>>,
    /// How much each platform should serve each application.
    scores: BTreeMap<PlatformId, BTreeMap<String, Score>>,
    /// The same by row of the quotas.
    scores_by_row: BTreeMap<PlatformId, Vec<Score>>,
    /// Users, by their places in [`super::volatile::JobLeases::user`].
    users: Vec<String>,
    /// Which of them had tasks that waited: the others have no share.
    pub(super) queued: Vec<bool>,
    /// How many tasks are meant for each platform.
    pub quotas: Quotas,
    /// Whose tasks each node is meant for.
    pub nodes: Arc<Nodes>,
    pub(super) favourites: Option<Arc<Favourites>>,
    /// How long it is to last at least.
    pub(super) lasts: Span,
    /// Whether there was anybody to be served.
    pub(super) is_of_use: bool,
}

/// Whose favourite each platform was, of those users and platforms, for PAF.
pub(super) type Favourites = (Vec<String>, Vec<PlatformId>, Table<bool>);

impl Guide {
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

impl Question {
    /// What the policies say. O(users × platforms + applications × platforms² + jobs + pilots).
    pub fn answer(&self) -> Guide {
        let scene = Scene::of(self);
        let mut guide = Guide { number: self.number, made_at: Some(self.now), ..Guide::default() };
        guide.is_of_use = !scene.is_empty();
        guide.users = scene.users.keys().map(|user| (*user).to_owned()).collect();
        if guide.is_of_use {
            self.share(&scene, &mut guide);
        }
        if let Some(policy) = self.policies.matching.by_application() {
            guide.scores = scene.scores(policy);
        }
        let mut divided = BTreeMap::new();
        if let Some(policy) = self.policies.distribution {
            (guide.quotas, divided) = divide::quotas(self, policy);
        }
        if let Some(policy) = self.policies.mapping {
            let mut nodes = Nodes::default();
            for cluster in clusters(self, &guide, &divided) {
                nodes.map(policy, &cluster, &self.facts.neighbours, &self.before.nodes);
            }
            guide.nodes = Arc::new(nodes);
        }
        for (id, scores) in &guide.scores {
            let none = Score(f64::NEG_INFINITY, 0.0);
            let score = |row: &Row| scores.get(&row.kind.application).copied().unwrap_or(none);
            guide.scores_by_row.insert(*id, guide.quotas.rows.iter().map(score).collect());
        }
        guide.places = self.jobs.iter().map(|job| (job.id, place(job, &divided))).collect();
        let n_cells = scene.users.len() * scene.platforms.len() + guide.quotas.n_cells() * N_ROUNDS;
        guide.lasts = LASTS_AT_LEAST.times((self.jobs.len() + n_cells) as u64).min(LASTS_LONG);
        guide
    }

    /// Divides platforms among users that have something queued (paper 000, section 5.3). What others still run comes
    /// free for these.
    fn share(&self, scene: &Scene<'_>, guide: &mut Guide) {
        let Some(allocation) = self.policies.allocation else { return };
        let runtimes = scene.runtimes_of_users();
        guide.queued = scene.users.values().map(|user| user.is_queued).collect();
        let wanted = |user: &User<'_>| if user.is_queued { user.cores_wanted } else { 0 };
        let tasks: Vec<u64> = scene.users.values().map(wanted).collect();
        let affinity = self.policies.affinity.table(&runtimes, &guide.queued);
        let same = |held: &&Arc<Favourites>| held.0 == guide.users && held.1 == scene.platforms;
        let favourites = self.before.favourites.as_ref().filter(same).map(|held| &held.2);
        let demand = Demand { tasks: &tasks, cores: &scene.cores, affinity: &affinity, favourites };
        let shares = allocation.share(&demand);
        for (column, platform) in scene.platforms.iter().enumerate() {
            let of_users = (0..guide.users.len()).map(|row| shares.cores.at(row, column));
            guide.shares.insert(*platform, of_users.collect());
        }
        let held = |table| Arc::new((guide.users.clone(), scene.platforms.clone(), table));
        guide.favourites = shares.favourites.map(held);
    }
}

fn place(job: &Open, divided: &BTreeMap<JobId, usize>) -> Divided {
    let left = if job.is_paused { Divided::NotYet } else { Divided::Left };
    divided.get(&job.id).map_or(left, |row| Divided::In(*row))
}

/// Users with open tasks, their applications, and platforms with pilots, there or on their way.
struct Scene<'a> {
    question: &'a Question,
    users: BTreeMap<&'a str, User<'a>>,
    platforms: Vec<PlatformId>,
    /// Of each platform.
    cores: Vec<u64>,
}

#[derive(Default)]
struct User<'a> {
    /// By application, cores that its open tasks would take if all ran at once.
    applications: BTreeMap<&'a str, u64>,
    cores_wanted: u64,
    /// Some of them wait.
    is_queued: bool,
}

impl<'a> Scene<'a> {
    fn of(question: &'a Question) -> Scene<'a> {
        let mut users = BTreeMap::<&str, User<'_>>::new();
        for job in question.open_jobs() {
            let wanted = job.cores_wanted();
            let user = users.entry(&job.user).or_default();
            let of_application = user.applications.entry(&job.application).or_default();
            *of_application = of_application.saturating_add(wanted);
            user.cores_wanted = user.cores_wanted.saturating_add(wanted);
            user.is_queued |= job.n_ready > 0;
        }
        let cores = |ground: &Ground| (ground.id, ground.n_live.saturating_mul(ground.offered.cores.into()));
        let (platforms, cores) = question.platforms.iter().map(cores).filter(|(_, cores)| *cores > 0).unzip();
        Scene { question, users, platforms, cores }
    }

    fn is_empty(&self) -> bool {
        self.users.is_empty() || self.platforms.is_empty()
    }

    /// Seconds that a task of each user's (row) takes on each platform: the mean over its applications, by what is
    /// open of each. Of those that differ in length each counts by its place among its own, or the longest would
    /// decide alone.
    fn runtimes_of_users(&self) -> Table<f64> {
        let known = Runtimes::new(&self.question.facts, &self.platforms);
        let mut table = Table::new(self.users.len(), self.platforms.len(), 0.0);
        for (row, user) in self.users.values().enumerate() {
            for (application, wanted) in &user.applications {
                let runtimes = known.guess(application);
                let mean = runtimes.iter().sum::<f64>() / runtimes.len().max(1) as f64;
                let length = if user.applications.len() > 1 { mean } else { 1.0 };
                let part = *wanted as f64 / user.cores_wanted.max(1) as f64;
                for (column, runtime) in runtimes.iter().enumerate() {
                    *table.at_mut(row, column) += part * runtime / length;
                }
            }
        }
        table
    }

    fn scores(&self, policy: ByApplication) -> BTreeMap<PlatformId, BTreeMap<String, Score>> {
        let names: BTreeSet<&str> =
            self.users.values().flat_map(|user| user.applications.keys().copied()).collect();
        let known = Runtimes::new(&self.question.facts, &self.platforms);
        let (mut rates, mut degrees) = (Vec::new(), Vec::new());
        for application in &names {
            let runtimes = known.guess(application);
            let mean = runtimes.iter().sum::<f64>() / runtimes.len().max(1) as f64;
            rates.push(runtimes.iter().map(|runtime| mean / runtime).collect::<Vec<f64>>());
            let degree = |id: &PlatformId| self.question.degree(*id, application);
            degrees.push(self.platforms.iter().map(degree).collect::<Vec<u32>>());
        }
        let importance = Importance::new(&rates, &degrees);
        let of_platform = |(node, id): (usize, &PlatformId)| {
            let score = |(n, name): (usize, &&str)| ((*name).to_owned(), policy.score(&importance, n, node));
            (*id, names.iter().enumerate().map(score).collect())
        };
        self.platforms.iter().enumerate().map(of_platform).collect()
    }
}
