//! Single runs: their clusters and policies.

use scheduler::{
    policy::placement::{Placement, Tla},
    rng::Rng,
};

use super::sources::Source;
use crate::tla::{
    multicluster::{Cluster, Outcome, simulate},
    speeds::draw_speeds,
    workload::Workload,
};

/// The policies of table 4 with which TLA is compared; the last, AI2, is from the paper.
pub const POLICIES: [(&str, Placement); 3] =
    [("BF", Placement::BestFit), ("FF", Placement::FastestFirst), ("AI2", Placement::Ai2)];

/// Returns the clusters of a source with the speeds of this vector; `None`: no such speeds were found.
pub fn clusters(source: &Source, heterogeneity: f64, vector: u64, seed: u64) -> Option<Vec<Cluster>> {
    let cores = vec![source.cluster_cores; source.n_clusters];
    let numbers = [4, source.n_clusters as u64, heterogeneity.to_bits(), vector];
    let speeds = draw_speeds(&cores, heterogeneity, &mut Rng::of(seed, &numbers))?;
    Some(speeds.into_iter().map(|speed| Cluster { cores: source.cluster_cores, speed }).collect())
}

/// Runs a workload by this policy. No job of a source is larger than its clusters.
///
/// # Panics
/// A job is larger.
pub fn run(workload: &Workload, clusters: &[Cluster], policy: Placement) -> Outcome {
    simulate(workload, clusters, |scene| policy.place(scene))
        .expect("a source has no job larger than its clusters")
}

/// Returns the average turnaround time by this policy, in seconds.
pub fn turnaround(workload: &Workload, clusters: &[Cluster], policy: Placement) -> f64 {
    run(workload, clusters, policy).average_turnaround
}

/// Returns by how much the turnaround time of TLA is shorter than the best of the others, in percent.
pub fn improvement(tla: f64, others: &[f64]) -> f64 {
    let best = others.iter().copied().fold(f64::INFINITY, f64::min);
    if best > 0.0 { 100.0 * (1.0 - tla / best) } else { 0.0 }
}

/// Returns the mean; 0 if there is no value.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, n) = values.into_iter().fold((0.0, 0_u64), |(sum, n), value| (sum + value, n + 1));
    if n > 0 { sum / n as f64 } else { 0.0 }
}

/// Returns TLA with the settings of the grid.
pub fn tla() -> Tla {
    Tla::default()
}

/// The description of the runs for the texts of parts.
pub const HOW_IT_RUNS: &str = "Jobs start first come first served without backfilling; improvement is 1 - ATT(TLA) / \
     min(ATT of BF, FF, AI2), each ATT averaged over the speed vectors.";
