//! The plan input: all that the planner looks at. It is a snapshot, so the plan may be computed beside the
//! engine, which goes on by the previous plan.

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

/// The plan input, see the module; [`PlanInput::answer`] is the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanInput {
    pub(in crate::engine) number: u64,
    pub(in crate::engine) now: Time,
    pub(in crate::engine) policies: Policies,
    pub(in crate::engine) facts: Applications,
    /// Jobs that have not ended, in order of id.
    pub(in crate::engine) jobs: Vec<OpenJob>,
    pub(in crate::engine) platforms: Vec<PlatformInput>,
    pub(in crate::engine) held: Vec<HeldTasks>,
    /// With a mapping policy: pilots that take part with all cores of their nodes.
    pub(in crate::engine) pilots: BTreeMap<PlatformId, Vec<PilotId>>,
    /// The previous plan.
    pub(in crate::engine) before: PreviousPlan,
    /// The state of the weight policy that carries over from job to job, as it was last recorded.
    pub(in crate::engine) law: Option<WeightPolicyState>,
}

/// A job that has not ended.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::engine) struct OpenJob {
    pub(in crate::engine) id: JobId,
    pub(in crate::engine) user: String,
    pub(in crate::engine) application: String,
    pub(in crate::engine) needs: Resources,
    pub(in crate::engine) is_paused: bool,
    /// Whether all its tasks are for a profiling run.
    pub(in crate::engine) is_profiling: bool,
    /// Whether it came after the previous division.
    pub(in crate::engine) is_new: bool,
    /// Number of open tasks that are not blocked.
    pub(in crate::engine) n_open: u64,
    /// Number of ready tasks.
    pub(in crate::engine) n_ready: u64,
}

/// A platform and its pilots.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::engine) struct PlatformInput {
    pub(in crate::engine) id: PlatformId,
    /// The resources that a pilot there offers.
    pub(in crate::engine) offered: Resources,
    /// Number of pilots that are there or on their way.
    pub(in crate::engine) n_live: u64,
    /// The capacities of pilots that take part, and the number of pilots with each.
    pub(in crate::engine) shapes: Vec<(Resources, u64)>,
}

/// The number of tasks of a job that pilots of a platform hold.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::engine) struct HeldTasks {
    pub(in crate::engine) platform: PlatformId,
    /// Its place in [`PlanInput::jobs`].
    pub(in crate::engine) job: usize,
    pub(in crate::engine) n: u64,
    /// Number of these tasks on pilots that still get new tasks.
    pub(in crate::engine) n_staying: u64,
}

/// The parts of the previous plan from which the next plan goes on.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::engine) struct PreviousPlan {
    pub(in crate::engine) quotas: QuotaTable,
    pub(in crate::engine) nodes: Arc<NodeMixes>,
    pub(in crate::engine) favourites: Option<Arc<Favourites>>,
}

impl PlanInput {
    /// Takes the snapshot. O(jobs × platforms + pilots).
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

    /// Returns the size of the planner's tables in cells; each takes some microseconds.
    pub(in crate::engine) fn n_cells(&self) -> u64 {
        let n_known: usize = self.facts.learned.values().map(|known| known.len()).sum();
        let n_mapped: usize = self.pilots.values().map(Vec::len).sum();
        (self.jobs.len() * self.platforms.len() + n_known * self.platforms.len() + n_mapped) as u64
    }

    /// Returns the parallel degree: how many tasks of an application a pilot of the platform runs well at a
    /// time.
    pub(in crate::engine) fn degree(&self, id: PlatformId, application: &str) -> u32 {
        let ground = self.platforms.iter().find(|ground| ground.id == id);
        self.facts.degree(id, application, ground.map_or(1, |ground| ground.offered.cores))
    }

    /// Returns the jobs that could give tasks to any pilot, now or later.
    pub(in crate::engine) fn open_jobs(&self) -> impl Iterator<Item = &OpenJob> {
        self.jobs.iter().filter(|job| !job.is_profiling && !job.is_paused && job.n_open > 0)
    }
}

impl OpenJob {
    /// Returns the cores that its open tasks would take if all ran at once.
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
    // New tasks do not wait for the tasks of pilots that no longer take part.
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
