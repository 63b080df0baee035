//! Runs over many instances, and their means.

use scheduler::rng::Rng;

use crate::{
    alstb::scene::{Scene, Setting},
    grid,
    report::{Draws, Progress},
};

/// Makespan, mean job makespan and flowtime, by instance and contender.
pub(super) type Runs = Vec<Vec<[f64; 3]>>;

/// Runs all contenders on the same instances of each setting; returns the runs by setting.
pub(super) fn run(
    settings: &[Setting],
    n_instances: u64,
    seed: u64,
    progress: &dyn Progress,
    contenders: impl Fn(&Scene) -> Vec<[f64; 3]> + Sync,
) -> Vec<Runs> {
    let inputs: Vec<(Setting, u64)> =
        settings.iter().flat_map(|setting| (0..n_instances).map(move |n| (*setting, n))).collect();
    let measured = grid::map(&inputs, progress, |(setting, n)| {
        // Instances of the same number have the same seed in every setting.
        contenders(&Scene::draw(setting, Rng::of(seed, &[*n]).draw()))
    });
    measured.chunks(n_instances.max(1) as usize).map(<[_]>::to_vec).collect()
}

/// Returns one contender's metrics divided by another's, over the instances.
pub(super) fn spreads(runs: &Runs, contender: usize, reference: usize) -> [Draws; 3] {
    [0, 1, 2]
        .map(|measure| Draws::of(runs.iter().map(|run| run[contender][measure] / run[reference][measure])))
}

/// Returns the means of these ratios.
pub(super) fn ratios(runs: &Runs, contender: usize, reference: usize) -> [f64; 3] {
    spreads(runs, contender, reference).map(|ratio| ratio.mean)
}

/// Returns the number of instances on which one contender has less than another, by metric.
pub(super) fn wins(runs: &Runs, contender: usize, other: usize) -> [usize; 3] {
    let of = |measure: usize| runs.iter().filter(|run| run[contender][measure] < run[other][measure]).count();
    [of(0), of(1), of(2)]
}

/// Returns a contender's metrics, over the instances.
pub(super) fn means(runs: &Runs, contender: usize) -> [Draws; 3] {
    [0, 1, 2].map(|measure| Draws::of(runs.iter().map(|run| run[contender][measure])))
}
