//! Temporal look-ahead: the first request is tried on every platform that has room, what waits behind it is
//! simulated to its end, and the platform on which all of them together fare best is taken, ties to the fastest
//! (paper 001, section 4). With nothing to look at (nobody waits behind, or one platform only has room) it is
//! fastest first.
//!
//! The simulation asks for estimates of runtimes; by the reproduction of the paper, estimates that are off by
//! a factor of four make it worse than fastest first.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{
    Request, Scene, best_fit, fastest_first,
    floor::{Floor, with_room},
    horizon::{End, Horizon, Planned, ends},
    random, worst_fit,
};
use crate::luck::Luck;

/// Runtimes of less than this count as this, in seconds: the usual bound.
const SLOWDOWN_BOUND: f64 = 10.0;
/// Scores that differ by no more than this part are equal: branches often have the same ends in another order,
/// and then the rounding of their sums must not decide.
const ROUNDING: f64 = 1e-12;

/// How the look-ahead looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Tla {
    /// How many requests behind the first are simulated; none given: all.
    pub simulation_depth: Option<NonZeroU32>,
    /// How many requests are placed by one simulation.
    pub allocation_depth: NonZeroU32,
    /// How the simulation places them.
    pub inner: Inner,
    /// What is made small.
    pub metric: Metric,
}

impl Default for Tla {
    /// Depth 320: in the sweep of the reproduction the gain no longer grows beyond it.
    fn default() -> Tla {
        Tla {
            simulation_depth: NonZeroU32::new(320),
            allocation_depth: NonZeroU32::MIN,
            inner: Inner::default(),
            metric: Metric::default(),
        }
    }
}

/// How requests are placed within the simulation (paper 001, figure 12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inner {
    /// See `fastest_first.rs`.
    #[default]
    FastestFirst,
    /// See `best_fit.rs`.
    BestFit,
    /// See `worst_fit.rs`.
    WorstFit,
    /// See `random.rs`; every branch of a decision has the same draws.
    Random {
        /// Of the draws.
        seed: u64,
    },
}

impl Inner {
    pub(super) fn choose(self, free: &[u64], cores: u64, luck: &mut Luck) -> Option<usize> {
        match self {
            Inner::FastestFirst => fastest_first::choose(free, cores),
            Inner::BestFit => best_fit::choose(free, cores),
            Inner::WorstFit => worst_fit::choose(free, cores),
            Inner::Random { .. } => random::choose(free, cores, luck),
        }
    }

    fn seed(self) -> u64 {
        if let Inner::Random { seed } = self { seed } else { 0 }
    }
}

/// What the look-ahead makes small. All branches have the same number of requests, so sums do for means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The average turnaround time, from submission to end.
    #[default]
    AverageTurnaround,
    /// The average of turnaround over runtime at speed 1, runtimes below ten seconds counted as ten, and no
    /// quotient below one.
    BoundedSlowdown,
}

impl Metric {
    fn of(self, request: &Request, planned: &Planned) -> f64 {
        let turnaround = planned.ends_at - request.submitted_at;
        match self {
            Metric::AverageTurnaround => turnaround,
            Metric::BoundedSlowdown => (turnaround / request.runtime.max(SLOWDOWN_BOUND)).max(1.0),
        }
    }
}

impl Tla {
    /// Ranks for the first requests. O(running × log running + candidates × depth × (platforms + log running)).
    pub(super) fn plan(
        &self,
        floor: &Floor,
        scene: &Scene<'_>,
        head: &Request,
        behind: &[Request],
    ) -> Vec<usize> {
        let Some(fastest) = fastest_first::choose(&floor.free, head.cores) else { return Vec::new() };
        if behind.is_empty() || with_room(&floor.free, head.cores).nth(1).is_none() {
            return vec![fastest];
        }
        let known = ends(floor, scene);
        let mut best = (f64::INFINITY, vec![fastest]);
        for rank in with_room(&floor.free, head.cores) {
            let branch = self.branch(scene.now, floor, &known, head, rank, behind);
            if branch.0 < best.0 * (1.0 - ROUNDING) {
                best = branch;
            }
        }
        best.1
    }

    /// The score with the first request on this platform, and the ranks of the first requests.
    pub(super) fn branch(
        &self,
        now: f64,
        floor: &Floor,
        known: &[End],
        head: &Request,
        rank: usize,
        behind: &[Request],
    ) -> (f64, Vec<usize>) {
        let mut horizon = Horizon::new(now, floor, known, self.inner.seed());
        let mut score = self.metric.of(head, &horizon.put(head, rank));
        let mut plan = vec![rank];
        let depth = self.simulation_depth.map_or(usize::MAX, |depth| depth.get() as usize);
        for request in behind.iter().take(depth) {
            // What never fits stops the queue, in every branch alike.
            let Some(planned) = horizon.put_next(request, self.inner) else { break };
            score += self.metric.of(request, &planned);
            if plan.len() < self.allocation_depth.get() as usize {
                plan.push(planned.rank);
            }
        }
        (score, plan)
    }
}
