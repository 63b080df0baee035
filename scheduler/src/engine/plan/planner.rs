//! The planner: computes a plan. It runs when users or pilots have come or gone, and pulls look the plan up.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    engine::{
        interface::planning::{PlanAnswer, Planning},
        live::plan::{
            in_force::{Favourites, LASTS_AT_LEAST, LASTS_LONG, N_ROUNDS, Plan},
            node_mix::NodeMixes,
            quota::{ClassQuota, QuotaPlace},
        },
        plan::{
            distribute,
            input::{OpenJob, PlanInput, PlatformInput},
            node_mix::clusters,
            runtime_model::RuntimeModel,
        },
    },
    ids::{JobId, PlatformId},
    policy::{
        allocation::Demand,
        matching::application::{ByApplication, Importance, Score},
        table::Table,
    },
};

impl Planning for PlanInput {
    fn answer(&self) -> PlanAnswer {
        PlanAnswer::new(self.plan())
    }
}

impl PlanInput {
    /// Computes the plan. O(users × platforms + applications × platforms² + jobs + pilots).
    pub fn plan(&self) -> Plan {
        let scene = Scene::of(self);
        let mut plan = Plan { number: self.number, made_at: Some(self.now), ..Plan::default() };
        plan.is_of_use = !scene.is_empty();
        plan.users = scene.users.keys().map(|user| (*user).to_owned()).collect();
        if plan.is_of_use {
            self.share(&scene, &mut plan);
        }
        if let Some(policy) = self.policies.matching.by_application() {
            plan.scores = scene.scores(policy);
        }
        let mut divided = BTreeMap::new();
        if let Some(policy) = self.policies.distribution {
            (plan.quotas, divided) = distribute::quotas(self, policy);
        }
        if let Some(policy) = self.policies.mapping {
            let mut nodes = NodeMixes::default();
            for cluster in clusters(self, &plan, &divided) {
                nodes.map(policy, &cluster, &self.facts.neighbours, &self.before.nodes);
            }
            plan.nodes = Arc::new(nodes);
        }
        for (id, scores) in &plan.scores {
            let none = Score(f64::NEG_INFINITY, 0.0);
            let score = |row: &ClassQuota| scores.get(&row.kind.application).copied().unwrap_or(none);
            plan.scores_by_row.insert(*id, plan.quotas.rows.iter().map(score).collect());
        }
        plan.places = self.jobs.iter().map(|job| (job.id, place(job, &divided))).collect();
        let n_cells = scene.users.len() * scene.platforms.len() + plan.quotas.n_cells() * N_ROUNDS;
        plan.lasts = LASTS_AT_LEAST.times((self.jobs.len() + n_cells) as u64).min(LASTS_LONG);
        plan
    }

    /// Divides platforms among users with ready tasks (paper 000, section 5.3). Cores on which tasks of other
    /// users still run come free for these users.
    fn share(&self, scene: &Scene<'_>, plan: &mut Plan) {
        let Some(allocation) = self.policies.allocation else { return };
        let runtimes = scene.runtimes_of_users();
        plan.queued = scene.users.values().map(|user| user.is_queued).collect();
        let wanted = |user: &User<'_>| if user.is_queued { user.cores_wanted } else { 0 };
        let tasks: Vec<u64> = scene.users.values().map(wanted).collect();
        let affinity = self.policies.affinity.table(&runtimes, &plan.queued);
        let same = |held: &&Arc<Favourites>| held.0 == plan.users && held.1 == scene.platforms;
        let favourites = self.before.favourites.as_ref().filter(same).map(|held| &held.2);
        let demand = Demand { tasks: &tasks, cores: &scene.cores, affinity: &affinity, favourites };
        let shares = allocation.share(&demand);
        for (column, platform) in scene.platforms.iter().enumerate() {
            let of_users = (0..plan.users.len()).map(|row| shares.cores.at(row, column));
            plan.shares.insert(*platform, of_users.collect());
        }
        let held = |table| Arc::new((plan.users.clone(), scene.platforms.clone(), table));
        plan.favourites = shares.favourites.map(held);
    }
}

fn place(job: &OpenJob, divided: &BTreeMap<JobId, usize>) -> QuotaPlace {
    let left = if job.is_paused { QuotaPlace::NotYet } else { QuotaPlace::Left };
    divided.get(&job.id).map_or(left, |row| QuotaPlace::In(*row))
}

/// The users with open tasks, their applications, and the platforms with pilots that are there or on their
/// way.
struct Scene<'a> {
    question: &'a PlanInput,
    users: BTreeMap<&'a str, User<'a>>,
    platforms: Vec<PlatformId>,
    /// Cores of each platform.
    cores: Vec<u64>,
}

#[derive(Default)]
struct User<'a> {
    /// Cores that its open tasks would take if all ran at once, by application.
    applications: BTreeMap<&'a str, u64>,
    cores_wanted: u64,
    /// Whether some of its tasks are ready.
    is_queued: bool,
}

impl<'a> Scene<'a> {
    fn of(question: &'a PlanInput) -> Scene<'a> {
        let mut users = BTreeMap::<&str, User<'_>>::new();
        for job in question.open_jobs() {
            let wanted = job.cores_wanted();
            let user = users.entry(&job.user).or_default();
            let of_application = user.applications.entry(&job.application).or_default();
            *of_application = of_application.saturating_add(wanted);
            user.cores_wanted = user.cores_wanted.saturating_add(wanted);
            user.is_queued |= job.n_ready > 0;
        }
        let cores =
            |ground: &PlatformInput| (ground.id, ground.n_live.saturating_mul(ground.offered.cores.into()));
        let (platforms, cores) = question.platforms.iter().map(cores).filter(|(_, cores)| *cores > 0).unzip();
        Scene { question, users, platforms, cores }
    }

    fn is_empty(&self) -> bool {
        self.users.is_empty() || self.platforms.is_empty()
    }

    /// Returns the seconds that a task of each user (row) takes on each platform (column): the mean over the
    /// user's applications, by the cores of their open tasks. With several applications, each runtime is
    /// taken relative to the application's mean, or the longest would decide alone.
    fn runtimes_of_users(&self) -> Table<f64> {
        let known = RuntimeModel::new(&self.question.facts, &self.platforms);
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
        let known = RuntimeModel::new(&self.question.facts, &self.platforms);
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
