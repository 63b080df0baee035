//! Node mixes: the cores of each node that are meant for each application. This is the second level of
//! sharing (paper 000, section 5.4): it divides the cores that fair shares and quotas leave each application
//! of a platform.
//!
//! Where several applications could be served, those with cores left in the mix come first; no core waits for
//! them.

use std::collections::BTreeMap;

use crate::{
    engine::{
        live::plan::{
            in_force::Plan,
            node_mix::{NodeMix, NodeMixes},
        },
        plan::input::{OpenJob, PlanInput, PlatformInput},
        state::learned::interference::{Interference, N_MEMBERS},
    },
    ids::{JobId, PilotId, PlatformId},
    policy::{
        affinity::corunner::CorunnerAffinity,
        allocation::equal_parts,
        distribution::RUNTIME_UNKNOWN_S,
        mapping::{Combination, Mapping, Placed, Site},
    },
    resources::Resources,
};

/// The most applications of a platform that are mapped, those with the most cores; the others may use all
/// nodes alike.
const N_APPLICATIONS_MAX: usize = 6;

/// The part of a platform that is meant for an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::engine) struct Part {
    /// Cores for all its users together.
    pub(in crate::engine) cores: u64,
    /// Cores of its widest task.
    pub(in crate::engine) widest: u64,
}

/// A platform whose nodes are to be mapped.
pub(in crate::engine) struct Cluster<'a> {
    pub(in crate::engine) platform: PlatformId,
    /// Cores of a node.
    pub(in crate::engine) cores: u64,
    /// The pilots of its nodes.
    pub(in crate::engine) pilots: Vec<PilotId>,
    pub(in crate::engine) parts: BTreeMap<&'a str, Part>,
}

impl NodeMixes {
    /// Returns the mix of the pilot's node.
    pub fn mix(&self, pilot: PilotId) -> Option<&NodeMix> {
        self.mixes.get(*self.of.get(&pilot)?)
    }

    /// Maps the nodes of a platform. Nodes whose mix is still wanted keep it (paper 000: redistribution).
    pub(in crate::engine) fn map(
        &mut self,
        policy: Mapping,
        cluster: &Cluster<'_>,
        known: &Interference,
        before: &NodeMixes,
    ) {
        let mut wanted = BTreeMap::<NodeMix, u64>::new();
        for (mix, n_nodes) in mixes(policy, cluster, known) {
            *wanted.entry(mix).or_default() += n_nodes;
        }
        let first = self.mixes.len();
        let (mixes, mut n_left): (Vec<NodeMix>, Vec<u64>) = wanted.into_iter().unzip();
        // The new place of each previous mix; there are few of them.
        let mut now = BTreeMap::<usize, Option<usize>>::new();
        let mut others = Vec::new();
        for pilot in &cluster.pilots {
            let same = before.of.get(pilot).and_then(|held| {
                *now.entry(*held).or_insert_with(|| mixes.iter().position(|mix| *mix == before.mixes[*held]))
            });
            match same.filter(|same| n_left[*same] > 0) {
                Some(same) => {
                    n_left[same] -= 1;
                    self.of.insert(*pilot, first + same);
                }
                None => others.push(*pilot),
            }
        }
        let rest =
            n_left.iter().enumerate().flat_map(|(mix, n)| std::iter::repeat_n(first + mix, *n as usize));
        self.of.extend(others.into_iter().zip(rest));
        self.mapped.insert(cluster.platform, mixes.iter().flat_map(|mix| mix.keys().cloned()).collect());
        self.mixes.extend(mixes);
    }
}

/// Returns the mixes and the number of nodes for each.
pub(in crate::engine) fn mixes(
    policy: Mapping,
    cluster: &Cluster<'_>,
    known: &Interference,
) -> Vec<(NodeMix, u64)> {
    let mut parts: Vec<(&str, Part)> =
        cluster.parts.iter().map(|(name, part)| (*name, *part)).filter(|(_, part)| part.cores > 0).collect();
    parts.sort_by_key(|(name, part)| (std::cmp::Reverse(part.cores), *name));
    parts.truncate(N_APPLICATIONS_MAX);
    parts.sort_by_key(|(name, _)| *name);
    let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
    let (shares, widest): (Vec<u64>, Vec<u64>) =
        parts.iter().map(|(_, part)| (part.cores, part.widest)).unzip();
    let combinations = combinations(cluster, &names, &widest, known);
    let alone = names.iter().map(|name| known.alone_s(cluster.platform, name));
    let placed = policy.place(&Site {
        n_nodes: cluster.pilots.len() as u64,
        cores_per_node: cluster.cores,
        shares: &shares,
        alone: &alone.map(seconds).collect::<Vec<f64>>(),
        combinations: &combinations,
        affinity: CorunnerAffinity::default(),
        seed: cluster.platform.0,
    });
    named(&placed, &combinations, &names, cluster.cores)
}

fn named(placed: &Placed, combinations: &[Combination], names: &[&str], cores: u64) -> Vec<(NodeMix, u64)> {
    let of_combination = |(combination, n_nodes): (&Combination, &u64)| {
        let piece = cores / combination.members.len() as u64;
        (combination.members.iter().map(|member| (names[*member].to_owned(), piece)).collect(), *n_nodes)
    };
    let of_mixed = |node: &Vec<u64>| {
        let there = node.iter().zip(names).filter(|(cores, _)| **cores > 0);
        (there.map(|(cores, name)| ((*name).to_owned(), *cores)).collect(), 1)
    };
    let mut all: Vec<(NodeMix, u64)> =
        combinations.iter().zip(&placed.n_nodes).filter(|(_, n)| **n > 0).map(of_combination).collect();
    all.extend(placed.mixed.iter().map(of_mixed));
    all
}

/// Returns the applications that may share a node. They fill the whole node, in equal parts that tasks of
/// each fill: other applications would run on any rest, and the effect of such co-runners could not be
/// measured.
fn combinations(
    cluster: &Cluster<'_>,
    names: &[&str],
    widest: &[u64],
    known: &Interference,
) -> Vec<Combination> {
    let mut all = Vec::new();
    for bits in 1_u32..1 << names.len() {
        let members: Vec<usize> = (0..names.len()).filter(|n| bits & 1 << n != 0).collect();
        let (n_members, piece) = (members.len() as u64, cluster.cores / members.len() as u64);
        let is_filled =
            |member: &usize| piece >= widest[*member] && piece.is_multiple_of(widest[*member].max(1));
        let is_whole =
            n_members == 1 || cluster.cores.is_multiple_of(n_members) && members.iter().all(is_filled);
        if !N_MEMBERS.contains(&members.len()) || !is_whole {
            continue;
        }
        let runtime = |member: &usize| {
            let others: Vec<&str> =
                members.iter().filter(|other| *other != member).map(|other| names[*other]).collect();
            seconds(known.beside_s(cluster.platform, names[*member], &others))
        };
        all.push(Combination { runtimes: members.iter().map(runtime).collect(), members });
    }
    all
}

/// Returns positive seconds, as the policies require; the same for all applications without a known runtime.
fn seconds(known: Option<f64>) -> f64 {
    known.unwrap_or(RUNTIME_UNKNOWN_S).max(1e-6)
}

/// Returns the platforms to map: those whose nodes have several cores. `divided`: the rows of jobs in the
/// quota table. O(pilots + open jobs × platforms).
pub(in crate::engine) fn clusters<'a>(
    question: &'a PlanInput,
    plan: &Plan,
    divided: &BTreeMap<JobId, usize>,
) -> Vec<Cluster<'a>> {
    let wants = wants(question);
    let cluster = |ground: &PlatformInput| {
        let pilots = question.pilots.get(&ground.id)?.clone();
        let cores = u64::from(ground.offered.cores);
        let meant = meant(question, plan, divided, ground.id);
        let parts = parts(plan, &wants, meant.as_ref(), ground, pilots.len() as u64);
        (cores > 1).then_some(Cluster { platform: ground.id, cores, pilots, parts })
    };
    question.platforms.iter().filter_map(cluster).collect()
}

/// Cores that all open tasks would take, by user, application and needs.
type Wants<'a> = BTreeMap<&'a str, BTreeMap<(&'a str, &'a Resources), u64>>;

fn wants(question: &PlanInput) -> Wants<'_> {
    let mut wants = Wants::new();
    for job in question.open_jobs() {
        let of_user = wants.entry(&job.user).or_default();
        let cores = of_user.entry((&job.application, &job.needs)).or_default();
        *cores = cores.saturating_add(job.cores_wanted());
    }
    wants
}

/// Returns the cores that a user wants on a platform, for tasks that fit there.
fn wanted_there<'a>(
    wants: &BTreeMap<(&'a str, &'a Resources), u64>,
    capacity: &Resources,
) -> BTreeMap<&'a str, Part> {
    let mut there = BTreeMap::<&str, Part>::new();
    for ((name, needs), cores) in wants.iter().filter(|((_, needs), _)| needs.fits_in(capacity)) {
        let part = there.entry(name).or_default();
        part.cores = part.cores.saturating_add(*cores);
        part.widest = part.widest.max(needs.cores.into());
    }
    there
}

/// Returns the part of each application on `n_nodes` nodes of a platform: the sum over its users of their
/// fair shares, or of equal parts without fair shares, and no more than is meant for the platform.
fn parts<'a>(
    plan: &Plan,
    wants: &Wants<'a>,
    meant: Option<&BTreeMap<&str, u64>>,
    ground: &PlatformInput,
    n_nodes: u64,
) -> BTreeMap<&'a str, Part> {
    let total = n_nodes.saturating_mul(ground.offered.cores.into());
    let there: Vec<BTreeMap<&str, Part>> =
        wants.values().map(|of_user| wanted_there(of_user, &ground.offered)).collect();
    let cap = |(name, part): (&&str, &Part)| match meant {
        Some(meant) => part.cores.min(meant.get(name).copied().unwrap_or(0)),
        None => part.cores,
    };
    let caps: Vec<Vec<u64>> = there.iter().map(|of_user| of_user.iter().map(cap).collect()).collect();
    let sums = caps.iter().map(|caps| caps.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)));
    let equal = equal_parts(total, &sums.collect::<Vec<u64>>());
    let share = |(user, equal): (&&str, u64)| plan.share(ground.id, user).unwrap_or(equal);
    let shares = scaled(total, wants.keys().zip(equal).map(share).collect());
    let mut parts = BTreeMap::<&str, Part>::new();
    for ((of_user, caps), share) in there.iter().zip(&caps).zip(shares) {
        for ((name, want), cores) in of_user.iter().zip(equal_parts(share, caps)) {
            let part = parts.entry(name).or_default();
            part.cores = part.cores.saturating_add(cores);
            part.widest = part.widest.max(want.widest);
        }
    }
    parts
}

/// Reduces shares in proportion if their sum is larger than `total`: they may include nodes that are still to
/// come.
fn scaled(total: u64, shares: Vec<u64>) -> Vec<u64> {
    let sum: u128 = shares.iter().map(|share| u128::from(*share)).sum();
    if sum <= u128::from(total) {
        return shares;
    }
    shares.into_iter().map(|share| (u128::from(share) * u128::from(total) / sum) as u64).collect()
}

/// Returns the cores of each application's tasks that are held on the platform or meant for it; `None`
/// without quotas.
pub(in crate::engine) fn meant<'a>(
    question: &'a PlanInput,
    plan: &'a Plan,
    divided: &BTreeMap<JobId, usize>,
    platform: PlatformId,
) -> Option<BTreeMap<&'a str, u64>> {
    let column = plan.quotas.column(platform)?;
    let mut meant = BTreeMap::<&str, u64>::new();
    let mut add = |name: &'a str, n_tasks: u64, cores: u32| {
        let sum = meant.entry(name).or_default();
        *sum = sum.saturating_add(n_tasks.saturating_mul(cores.into()));
    };
    for row in &plan.quotas.rows {
        let n_left = row.cells.get(column).map_or(0, |cell| cell.n_left);
        add(&row.kind.application, n_left, row.kind.needs.cores);
    }
    for held in question.held.iter().filter(|held| held.platform == platform) {
        let job = &question.jobs[held.job];
        if !job.is_profiling {
            add(&job.application, held.n, job.needs.cores);
        }
    }
    // Any platform may take jobs without a quota.
    let is_left = |job: &&OpenJob| !job.is_paused && !job.is_profiling && !divided.contains_key(&job.id);
    for job in question.jobs.iter().filter(is_left) {
        meant.insert(&job.application, u64::MAX);
    }
    Some(meant)
}
