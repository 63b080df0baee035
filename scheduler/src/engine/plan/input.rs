//! What the policies that look at everything are asked, with all that they look at: nobody else's, so it may be
//! answered beside the engine, which goes on by what they said before.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    engine::{
        live::{
            Live,
            plan::{
                in_force::{Favourites, Plan},
                node_mix::NodeMixes,
                quota::{QuotaPlace, QuotaTable},
            },
        },
        record::weight_policy::WeightPolicyState,
        state::{durable::Durable, learned::applications::Applications},
    },
    ids::{JobId, PilotId, PlatformId},
    policy::{Policies, distribution::Distribution},
    resources::Resources,
    time::Time,
};

/// See the module; [`PlanInput::answer`] is the answer.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanInput {
    pub(in crate::engine) number: u64,
    pub(in crate::engine) now: Time,
    pub(in crate::engine) policies: Policies,
    pub(in crate::engine) facts: Applications,
    /// Those that are not over, by their numbers.
    pub(in crate::engine) jobs: Vec<OpenJob>,
    pub(in crate::engine) platforms: Vec<PlatformInput>,
    pub(in crate::engine) held: Vec<HeldTasks>,
    /// Where nodes are mapped: pilots that take part with all cores of their nodes.
    pub(in crate::engine) pilots: BTreeMap<PlatformId, Vec<PilotId>>,
    /// What was said before.
    pub(in crate::engine) before: PreviousPlan,
    /// The law that went on from job to job when that was last written down.
    pub(in crate::engine) law: Option<WeightPolicyState>,
}

/// A job that is not over.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::engine) struct OpenJob {
    pub(in crate::engine) id: JobId,
    pub(in crate::engine) user: String,
    pub(in crate::engine) application: String,
    pub(in crate::engine) needs: Resources,
    pub(in crate::engine) is_paused: bool,
    /// All its tasks are for a profiling run.
    pub(in crate::engine) is_profiling: bool,
    /// It came since it was last divided.
    pub(in crate::engine) is_new: bool,
    /// Tasks that are not over.
    pub(in crate::engine) n_open: u64,
    /// Of them those that anybody may have.
    pub(in crate::engine) n_ready: u64,
}

/// A platform.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::engine) struct PlatformInput {
    pub(in crate::engine) id: PlatformId,
    /// What a pilot there offers.
    pub(in crate::engine) offered: Resources,
    /// Pilots that are there or on their way.
    pub(in crate::engine) n_live: u64,
    /// What pilots that take part have, and how many have so much.
    pub(in crate::engine) shapes: Vec<(Resources, u64)>,
}

/// What pilots of a platform hold of a job.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::engine) struct HeldTasks {
    pub(in crate::engine) platform: PlatformId,
    /// Its place in [`PlanInput::jobs`].
    pub(in crate::engine) job: usize,
    pub(in crate::engine) n: u64,
    /// … without what those hold that get nothing new any more.
    pub(in crate::engine) n_staying: u64,
}

/// What the policies said before, as far as they go on from there.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::engine) struct PreviousPlan {
    pub(in crate::engine) quotas: QuotaTable,
    pub(in crate::engine) nodes: Arc<NodeMixes>,
    pub(in crate::engine) favourites: Option<Arc<Favourites>>,
}

impl PlanInput {
    /// O(jobs × platforms + pilots).
    pub(in crate::engine) fn of(
        durable: &Durable,
        live: &Live,
        policies: Policies,
        number: u64,
    ) -> PlanInput {
        let jobs = jobs(durable, live);
        let is_2016 = policies.distribution == Some(Distribution::Adaptive2016);
        PlanInput {
            number,
            now: live.now,
            policies,
            facts: durable.facts().clone(),
            held: held(durable, live, &jobs),
            platforms: platforms(durable, live),
            pilots: policies.mapping.map_or_else(BTreeMap::new, |_| pilots(durable, live)),
            before: PreviousPlan::of(&live.plan),
            law: durable.weights().law().cloned().filter(|_| is_2016),
            jobs,
        }
    }

    /// How long it may take to answer: cells of tables, each some microseconds.
    pub(in crate::engine) fn n_cells(&self) -> u64 {
        let n_known: usize = self.facts.learned.values().map(|known| known.len()).sum();
        let n_mapped: usize = self.pilots.values().map(Vec::len).sum();
        (self.jobs.len() * self.platforms.len() + n_known * self.platforms.len() + n_mapped) as u64
    }

    /// How many tasks of an application a pilot of the platform runs well at a time.
    pub(in crate::engine) fn degree(&self, id: PlatformId, application: &str) -> u32 {
        let ground = self.platforms.iter().find(|ground| ground.id == id);
        self.facts.degree(id, application, ground.map_or(1, |ground| ground.offered.cores))
    }

    /// Jobs that could give out tasks to any pilot, now or later.
    pub(in crate::engine) fn open_jobs(&self) -> impl Iterator<Item = &OpenJob> {
        self.jobs.iter().filter(|job| !job.is_profiling && !job.is_paused && job.n_open > 0)
    }
}

impl OpenJob {
    /// Cores that its open tasks would take if all ran at once.
    pub(in crate::engine) fn cores_wanted(&self) -> u64 {
        self.n_open.saturating_mul(u64::from(self.needs.cores))
    }
}

impl PreviousPlan {
    fn of(plan: &Plan) -> PreviousPlan {
        let (quotas, nodes) = (plan.quotas.clone(), plan.nodes.clone());
        PreviousPlan { quotas, nodes, favourites: plan.favourites.clone() }
    }
}

fn jobs(durable: &Durable, live: &Live) -> Vec<OpenJob> {
    let open = live.jobs.iter().filter_map(|(id, leases)| {
        let job = durable.jobs().get(id)?;
        Some(OpenJob {
            id: *id,
            user: job.request.user.clone(),
            application: job.request.application.clone(),
            needs: job.request.needs.resources.clone(),
            is_paused: job.is_paused,
            is_profiling: leases.profiled_on.is_some(),
            is_new: leases.divided == QuotaPlace::NotYet,
            n_open: job.open.len() - live.graph.n_blocked(*id),
            n_ready: leases.ready.len(),
        })
    });
    open.collect()
}

fn platforms(durable: &Durable, live: &Live) -> Vec<PlatformInput> {
    let mut shapes = BTreeMap::<PlatformId, Vec<(Resources, u64)>>::new();
    for ((platform, capacity), pilots) in &live.capacities {
        shapes.entry(*platform).or_default().push((capacity.clone(), pilots.len() as u64));
    }
    let ground = |id: &PlatformId| PlatformInput {
        id: *id,
        offered: durable.offered(*id),
        n_live: durable.allocation_counts(*id).n_live as u64,
        shapes: shapes.remove(id).unwrap_or_default(),
    };
    durable.platforms().keys().map(ground).collect()
}

fn held(durable: &Durable, live: &Live, jobs: &[OpenJob]) -> Vec<HeldTasks> {
    // What has no room with the others does not wait for it.
    let mut leaving = BTreeMap::<(PlatformId, JobId), u64>::new();
    for (id, state) in live.pilots.iter().filter(|(_, state)| !state.takes_part) {
        let Some(platform) = durable.pilots().get(id).map(|pilot| pilot.platform) else { continue };
        for (job, tasks) in &state.leases {
            *leaving.entry((platform, *job)).or_default() += tasks.len();
        }
    }
    let held = live.held_on.iter().filter_map(|(place, n)| {
        let job = jobs.binary_search_by_key(&place.1, |job| job.id).ok()?;
        let n_leaving = leaving.get(place).copied().unwrap_or(0);
        Some(HeldTasks { platform: place.0, job, n: *n, n_staying: n.saturating_sub(n_leaving) })
    });
    held.collect()
}

fn pilots(durable: &Durable, live: &Live) -> BTreeMap<PlatformId, Vec<PilotId>> {
    let cores = |id: &PlatformId| (*id, durable.offered(*id).cores);
    let cores: BTreeMap<PlatformId, u32> = durable.platforms().keys().map(cores).collect();
    let mut pilots = BTreeMap::<PlatformId, Vec<PilotId>>::new();
    for (id, state) in live.pilots.iter().filter(|(_, state)| state.takes_part) {
        let Some(platform) = durable.pilots().get(id).map(|pilot| pilot.platform) else { continue };
        if cores.get(&platform).is_some_and(|cores| *cores == state.capacity.cores) {
            pilots.entry(platform).or_default().push(*id);
        }
    }
    pilots
}
