//! What the policies that look at everything say, for a while: worked out when users or pilots have come or
//! gone, and looked up at each pull.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Turn, divide,
    durable::{Durable, Job},
    nodes::{Nodes, clusters},
    quotas::{Divided, Quotas},
    runtimes::Runtimes,
    volatile::{Timer, Volatile},
    weights::WeightHistory,
};
use crate::{
    ids::{JobId, PlatformId},
    policy::{
        Policies,
        allocation::Demand,
        matching::application::{ByApplication, Importance, Score, degree},
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
/// What tasks show meanwhile is taken in after so long.
const LASTS_AT_MOST: Span = Span::from_secs(30);

/// See the module. Empty while the policies need none.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    /// Cores of each platform that are meant for each user.
    shares: BTreeMap<PlatformId, BTreeMap<String, u64>>,
    /// How much each platform should serve each application.
    scores: BTreeMap<PlatformId, BTreeMap<String, Score>>,
    /// The same by row of the quotas.
    scores_by_row: BTreeMap<PlatformId, Vec<Score>>,
    /// Users, by their places in [`super::volatile::JobLeases::user`].
    users: Vec<String>,
    /// How many tasks are meant for each platform.
    pub quotas: Quotas,
    /// How their weights came about.
    pub weights: WeightHistory,
    /// Whose tasks each node is meant for.
    pub nodes: Nodes,
    /// Whose favourite each platform was, with those users and platforms, for PAF.
    favourites: Option<(Vec<String>, Vec<PlatformId>, Table<bool>)>,
    made_at: Option<Time>,
    /// How long it is to last at least.
    lasts: Span,
    due_at: Option<Time>,
}

impl Guide {
    /// Cores of the platform that are meant for the user; `None`: as many as there are.
    pub fn share(&self, platform: PlatformId, user: &str) -> Option<u64> {
        self.shares.get(&platform)?.get(user).copied()
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

    /// All users, by their places.
    pub fn users(&self) -> &[String] {
        &self.users
    }

    #[cfg(test)]
    pub fn made_at(&self) -> Option<Time> {
        self.made_at
    }

    /// Whether it divides platforms among users.
    pub fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Cores of the platform that are meant for each user.
    pub fn shares(&self, platform: PlatformId) -> Option<&BTreeMap<String, u64>> {
        self.shares.get(&platform)
    }
}

/// Whether these policies need a guide. What is not divided between platforms needs no quotas.
fn is_needed(policies: &Policies, n_platforms: usize) -> bool {
    policies.allocation.is_some()
        || policies.mapping.is_some()
        || policies.matching.by_application().is_some()
        || policies.distribution.is_some() && n_platforms > 1
}

impl Volatile {
    fn want_guide(&mut self, policies: &Policies, now: Time) {
        if is_needed(policies, self.platforms.len()) {
            self.arm_guide(self.guide.made_at.map_or(now, |made_at| (made_at + self.guide.lasts).max(now)));
        }
    }

    /// Where each job's user stands among these, which are in order.
    fn note_users(&mut self, durable: &Durable, users: &[String]) {
        for (id, leases) in &mut self.jobs {
            let user = durable.jobs().get(id).map(|job| &job.request.user);
            leases.user = user.and_then(|user| users.binary_search(user).ok());
        }
    }

    /// A pilot of the platform has taken so many tasks of the job.
    pub fn take_quota(&mut self, platform: PlatformId, job: JobId, n_tasks: u64, now: Time) {
        let (Some(column), Some(leases)) = (self.guide.quotas.column(platform), self.jobs.get_mut(&job))
        else {
            return;
        };
        if let Divided::In(row) = leases.divided {
            // Who took it for want of others has not ended the wait for them.
            if self.guide.quotas.is_open(column, row, now) {
                leases.waits_since = None;
            }
            self.guide.quotas.take(column, row, n_tasks);
        }
    }

    /// What other policies have said counts no more.
    pub fn drop_guide(&mut self) {
        if let Some(due_at) = std::mem::take(&mut self.guide).due_at {
            self.timers.remove(&(due_at, Timer::Guide));
        }
    }

    fn arm_guide(&mut self, at: Time) {
        if self.guide.due_at.is_none_or(|due_at| at < due_at) {
            if let Some(due_at) = self.guide.due_at.replace(at) {
                self.timers.remove(&(due_at, Timer::Guide));
            }
            self.timers.insert((at, Timer::Guide));
        }
    }
}

impl Turn<'_> {
    /// Something has changed that policies look at.
    pub(super) fn want_guide(&mut self) {
        self.volatile.want_guide(&self.policies(), self.now);
    }

    /// Works it out anew. O(users × platforms + applications × platforms + jobs that are open).
    pub(super) fn renew_guide(&mut self) {
        let before = std::mem::take(&mut self.volatile.guide);
        let scene = Scene::of(self.durable, self.volatile);
        let policies = self.durable.policies(self.settings.policies);
        let mut guide = Guide { made_at: Some(self.now), ..Guide::default() };
        if let Some(allocation) = policies.allocation.filter(|_| !scene.is_empty()) {
            let runtimes = scene.runtimes_of_users();
            let tasks: Vec<u64> = scene.users.values().map(|user| user.cores_wanted).collect();
            let affinity = policies.affinity.table(&runtimes, &vec![true; tasks.len()]);
            let (users, platforms) = (scene.user_names(), scene.platforms.clone());
            let same = |held: &&(Vec<String>, Vec<PlatformId>, _)| held.0 == users && held.1 == platforms;
            let favourites = before.favourites.as_ref().filter(same).map(|(.., table)| table);
            let demand = Demand { tasks: &tasks, cores: &scene.cores, affinity: &affinity, favourites };
            let shares = allocation.share(&demand);
            for (column, platform) in platforms.iter().enumerate() {
                let of_user = |(row, user): (usize, &String)| (user.clone(), shares.cores.at(row, column));
                guide.shares.insert(*platform, users.iter().enumerate().map(of_user).collect());
            }
            guide.favourites = shares.favourites.map(|table| (users, platforms, table));
        }
        if let Some(policy) = policies.matching.by_application() {
            guide.scores = scene.scores(policy);
        }
        let goes_on = !scene.is_empty();
        if let Some(policy) = policies.distribution {
            guide.quotas = divide::quotas((self.durable, self.volatile), policy, &before.quotas, self.now);
            guide.weights = before.weights;
            let name = |id| self.durable.platforms().get(&id).map_or_else(String::new, |p| p.name.clone());
            guide.weights.note(&guide.quotas, self.now, &name);
        }
        if let Some(policy) = policies.mapping {
            let mut nodes = Nodes::default();
            for cluster in clusters(self.durable, self.volatile, &guide) {
                nodes.map(policy, &cluster, self.durable.neighbours(), &before.nodes);
            }
            guide.nodes = nodes;
        }
        for id in guide.scores.keys() {
            let rows = guide.quotas.rows.iter();
            guide
                .scores_by_row
                .insert(*id, rows.map(|row| guide.score(*id, &row.kind.application)).collect());
        }
        guide.users = scene.user_names();
        let n_cells = scene.users.len() * scene.platforms.len() + guide.quotas.n_cells() * N_ROUNDS;
        guide.lasts = LASTS_AT_LEAST.times((self.volatile.jobs.len() + n_cells) as u64).min(LASTS_LONG);
        let due_at =
            guide.quotas.due_at.map_or(self.now + LASTS_AT_MOST, |at| at.max(self.now + guide.lasts));
        self.volatile.note_users(self.durable, &guide.users);
        self.volatile.guide = guide;
        if goes_on {
            self.volatile.arm_guide(due_at.min(self.now + LASTS_AT_MOST));
        }
        self.volatile.stir_all();
    }
}

/// Users with open tasks, their applications, and platforms with pilots, there or on their way.
struct Scene<'a> {
    durable: &'a Durable,
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
}

impl<'a> Scene<'a> {
    fn of(durable: &'a Durable, volatile: &Volatile) -> Scene<'a> {
        let mut users = BTreeMap::<&str, User<'_>>::new();
        for job in open_jobs(durable, volatile) {
            let wanted = cores_wanted(job);
            let user = users.entry(&job.request.user).or_default();
            let of_application = user.applications.entry(&job.request.application).or_default();
            *of_application = of_application.saturating_add(wanted);
            user.cores_wanted = user.cores_wanted.saturating_add(wanted);
        }
        let there = durable.platforms().keys().map(|id| {
            (*id, (durable.census(*id).n_live as u64).saturating_mul(u64::from(durable.offered(*id).cores)))
        });
        let (platforms, cores) = there.filter(|(_, cores)| *cores > 0).unzip();
        Scene { durable, users, platforms, cores }
    }

    fn is_empty(&self) -> bool {
        self.users.is_empty() || self.platforms.is_empty()
    }

    fn user_names(&self) -> Vec<String> {
        self.users.keys().map(|user| (*user).to_owned()).collect()
    }

    /// Seconds that a task of each user's (row) takes on each platform: the mean over its applications, by what is
    /// open of each. Of those that differ in length each counts by its place among its own, or the longest would
    /// decide alone.
    fn runtimes_of_users(&self) -> Table<f64> {
        let known = Runtimes::new(self.durable, &self.platforms);
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
        let known = Runtimes::new(self.durable, &self.platforms);
        let (mut rates, mut degrees) = (Vec::new(), Vec::new());
        for application in &names {
            let runtimes = known.guess(application);
            let mean = runtimes.iter().sum::<f64>() / runtimes.len().max(1) as f64;
            rates.push(runtimes.iter().map(|runtime| mean / runtime).collect::<Vec<f64>>());
            let degree = |id: &PlatformId| self.durable.degree(*id, application);
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

impl Durable {
    /// How many tasks of an application a pilot's cores run well at a time: as throughput grows from one task to as
    /// many as there are cores, where both were measured; else what keeps no core busy goes to data.
    pub fn degree(&self, id: PlatformId, application: &str) -> u32 {
        let n_cores = self.offered(id).cores.max(1);
        let idle = || 1.0 - self.known(id, application).cpu_share().unwrap_or(1.0).clamp(0.0, 1.0);
        let lost = self.neighbours().loss_beside_its_like(id, application);
        degree(lost.unwrap_or_else(idle), n_cores)
    }
}

/// Jobs that could give out tasks to any pilot, now or later.
pub(super) fn open_jobs<'a>(durable: &'a Durable, volatile: &Volatile) -> impl Iterator<Item = &'a Job> {
    let open = |id| durable.jobs().get(id).filter(|job| !job.is_paused && !job.open.is_empty());
    volatile
        .jobs
        .iter()
        .filter(|(_, leases)| leases.profiled_on.is_none())
        .filter_map(move |(id, _)| open(id))
}

/// Cores that a job's open tasks would take if all ran at once.
pub(super) fn cores_wanted(job: &Job) -> u64 {
    job.open.len().saturating_mul(u64::from(job.request.needs.resources.cores))
}
