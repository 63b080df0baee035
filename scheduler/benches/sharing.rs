//! Benchmark of one decision of both levels of sharing, PA-RR and MAF, for 1,000 users of 40 applications on
//! 50 platforms: `cargo bench -p scheduler --bench sharing`. No goal is set: the decision is made only when a
//! user arrives or has no queued tasks left.

// The engine reads no clock; its benchmark has to.
#![expect(clippy::disallowed_types, reason = "a benchmark reads the clock")]

use std::{hint::black_box, time::Instant};

use scheduler::{
    policy::{
        affinity::{Affinity, corunner::CorunnerAffinity},
        allocation::{Allocation, Demand},
        mapping::{Combination, Mapping, Site},
        table::Table,
    },
    rng::Rng,
};

const N_USERS: usize = 1000;
const N_APPLICATIONS: usize = 40;
const N_PLATFORMS: usize = 50;
const N_NODES: u64 = 200;
const CORES_PER_NODE: u64 = 32;
const N_DECISIONS: usize = 5;

fn main() {
    let mut luck = Rng::new(1);
    let mut seconds = || luck.between(1_000, 100_000) as f64 / 1e3;
    let runtimes: Vec<Vec<f64>> =
        (0..N_APPLICATIONS).map(|_| (0..N_PLATFORMS).map(|_| seconds()).collect()).collect();
    let combinations: Vec<Vec<Combination>> =
        (0..N_PLATFORMS).map(|platform| pairs(&runtimes, platform, &mut Rng::new(platform as u64))).collect();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..N_DECISIONS {
        let began = Instant::now();
        let shares = black_box(first_level(&runtimes));
        first.push(began.elapsed().as_secs_f64() * 1e3);
        let began = Instant::now();
        for (platform, combinations) in combinations.iter().enumerate() {
            second_level(&runtimes, platform, &shares, combinations);
        }
        second.push(began.elapsed().as_secs_f64() * 1e3);
    }
    for (name, times) in [("first level, RPA and PA-RR", &mut first), ("second level, MAF", &mut second)] {
        times.sort_by(f64::total_cmp);
        println!("{:<50} {:>10.3} ms", format!("sharing, {name}"), times[N_DECISIONS / 2]);
    }
}

/// Returns each application alone and each pair of applications, with random slow-downs.
fn pairs(runtimes: &[Vec<f64>], platform: usize, luck: &mut Rng) -> Vec<Combination> {
    let all = (0..N_APPLICATIONS).flat_map(|one| (one..N_APPLICATIONS).map(move |other| (one, other)));
    let with_runtimes = all.map(|(one, other)| {
        let members = if one == other { vec![one] } else { vec![one, other] };
        let slower = |one: &usize| runtimes[*one][platform] * (1.0 + luck.below(1000) as f64 / 1e3);
        Combination { runtimes: members.iter().map(slower).collect(), members }
    });
    with_runtimes.collect()
}

fn first_level(runtimes: &[Vec<f64>]) -> Table<u64> {
    let of_users = Table::new(N_USERS, N_PLATFORMS, ())
        .map_places(|user, platform| runtimes[user % N_APPLICATIONS][platform]);
    let demand = Demand {
        tasks: &(0..N_USERS as u64).map(|user| 10 + user * 7 % 100_000).collect::<Vec<_>>(),
        cores: &[N_NODES * CORES_PER_NODE; N_PLATFORMS],
        affinity: &Affinity::Rpa.table(&of_users, &[true; N_USERS]),
        favourites: None,
    };
    Allocation::default().share(&demand).cores
}

/// Measures the second level. Users of one application count together, because mapping knows only
/// applications.
fn second_level(runtimes: &[Vec<f64>], platform: usize, shares: &Table<u64>, combinations: &[Combination]) {
    let mut of_applications = vec![0; N_APPLICATIONS];
    for user in 0..N_USERS {
        of_applications[user % N_APPLICATIONS] += shares.at(user, platform);
    }
    black_box(Mapping::default().place(&Site {
        n_nodes: N_NODES,
        cores_per_node: CORES_PER_NODE,
        shares: &of_applications,
        alone: &runtimes.iter().map(|row| row[platform]).collect::<Vec<_>>(),
        combinations,
        affinity: CorunnerAffinity::Normalized,
        seed: 1,
    }));
}
