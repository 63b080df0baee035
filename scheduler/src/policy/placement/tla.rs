//! Temporal look-ahead: the first request is tried on every platform that has room, what waits behind it is
//! simulated to its end, and the platform on which all of them together fare best is taken, ties to the fastest
//! (TLA, Shih et al., JPDC 73, 2013; paper 001). With nothing to look at (nobody waits behind, or one platform only has room) it is
//! fastest first.
//!
//! The simulation asks for estimates of runtimes. In the reproduction of the paper a third of the gain is gone when
//! they are off by up to a quarter, and more than half when they are off by up to a factor of two.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{
    Request, Scene, best_fit, fastest_first,
    floor::{Floor, with_room},
    horizon::{Horizon, Planned, ends},
    random, worst_fit,
};
use crate::rng::Rng;

/// Runtimes of less than this count as this, in seconds: the usual bound.
const SLOWDOWN_BOUND: f64 = 10.0;
/// Scores that differ by no more than this part are equal: branches often have the same ends in another order,
/// and then the rounding of their sums must not decide.
pub(super) const ROUNDING: f64 = 1e-12;

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
    pub(super) fn choose(self, free: &[u64], cores: u64, luck: &mut Rng) -> Option<usize> {
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

/// What the look-ahead makes small.
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

/// One of the choices for the first request, and what would become of the queue: what the decision was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Where the first request would run.
    pub platform: usize,
    /// The mean of the metric over the forecasts; smaller is better.
    pub score: f64,
    /// For the first request and each one behind it, up to the depth or to the first that never fits.
    pub forecasts: Vec<Forecast>,
}

/// Where and when a request would run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Its position among the platforms.
    pub platform: usize,
    /// In seconds.
    pub starts_at: f64,
    /// In seconds.
    pub ends_at: f64,
}

impl Tla {
    /// All choices for the first request, the fastest platform first; none when it fits nowhere or nothing waits.
    ///
    /// # Panics
    /// Something runs on a platform that is not among the platforms.
    pub fn branches(&self, scene: &Scene<'_>) -> Vec<Branch> {
        let Some((head, behind)) = scene.waiting.split_first() else { return Vec::new() };
        let floor = Floor::new(scene.platforms);
        let known = ends(&floor, scene);
        let branch = |rank| {
            let mut forecasts = Vec::new();
            let horizon = Horizon::new(scene.now, &floor, &known, self.inner.seed());
            let sum = self.look(horizon, head, rank, behind, |planned| {
                forecasts.push(Forecast {
                    platform: floor.platforms[planned.rank],
                    starts_at: planned.starts_at,
                    ends_at: planned.ends_at,
                });
            });
            Branch { platform: floor.platforms[rank], score: sum / forecasts.len() as f64, forecasts }
        };
        with_room(&floor.free, head.cores).map(branch).collect()
    }

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
        let n_planned = self.allocation_depth.get() as usize;
        let (mut least, mut best) = (f64::INFINITY, vec![fastest]);
        for rank in with_room(&floor.free, head.cores) {
            let mut plan = Vec::new();
            let horizon = Horizon::new(scene.now, floor, &known, self.inner.seed());
            let sum = self.look(horizon, head, rank, behind, |planned| {
                if plan.len() < n_planned {
                    plan.push(planned.rank);
                }
            });
            if sum < least * (1.0 - ROUNDING) {
                (least, best) = (sum, plan);
            }
        }
        best
    }

    /// The sum of the metric with the first request on this platform. Branches have the same number of terms, so
    /// that sums compare as means do.
    fn look(
        &self,
        mut horizon: Horizon<'_>,
        head: &Request,
        rank: usize,
        behind: &[Request],
        mut hear: impl FnMut(&Planned),
    ) -> f64 {
        let first = horizon.put(head, rank);
        hear(&first);
        let mut sum = self.metric.of(head, &first);
        let depth = self.simulation_depth.map_or(usize::MAX, |depth| depth.get() as usize);
        for request in behind.iter().take(depth) {
            // What never fits stops the queue, in every branch alike.
            let Some(planned) = horizon.put_next(request, self.inner) else { break };
            hear(&planned);
            sum += self.metric.of(request, &planned);
        }
        sum
    }
}
