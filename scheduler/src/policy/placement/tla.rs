//! Temporal look-ahead: tries the first request on every platform that has room, simulates the waiting
//! requests behind it to their end, and chooses the platform with the best result for all of them, ties to
//! the fastest (TLA, Shih et al., JPDC 73, 2013; paper 001). If no request waits behind it, or only one
//! platform has room, it chooses the fastest that has room.
//!
//! The simulation needs estimates of runtimes. In the reproduction of the paper a third of the gain is lost
//! if they are off by up to a quarter, and more than half if they are off by up to a factor of two.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{
    Request, Scene, best_fit, fastest_first,
    floor::{Floor, with_room},
    horizon::{Horizon, Planned, ends},
    random, worst_fit,
};
use crate::rng::Rng;

/// Runtimes below this count as this, in seconds: the usual bound.
const SLOWDOWN_BOUND: f64 = 10.0;
/// Scores that differ by at most this part are equal: branches often have the same ends in another order, and
/// the rounding of their sums must not decide.
pub(super) const ROUNDING: f64 = 1e-12;

/// The settings of the look-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Tla {
    /// Number of requests behind the first that are simulated; `None`: all.
    pub simulation_depth: Option<NonZeroU32>,
    /// Number of requests that one simulation places.
    pub allocation_depth: NonZeroU32,
    /// The policy that places requests within the simulation.
    pub inner: Inner,
    /// The metric to minimize.
    pub metric: Metric,
}

impl Default for Tla {
    /// Returns the defaults. Depth 320: in the sweep of the reproduction the gain does not grow beyond it.
    fn default() -> Tla {
        Tla {
            simulation_depth: NonZeroU32::new(320),
            allocation_depth: NonZeroU32::MIN,
            inner: Inner::default(),
            metric: Metric::default(),
        }
    }
}

/// The policy within the simulation (paper 001, figure 12).
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
    /// See `random.rs`; every branch of a decision has the same random numbers.
    Random {
        /// The seed of the random numbers.
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

/// The metric that the look-ahead minimizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The average turnaround time, from submission to end.
    #[default]
    AverageTurnaround,
    /// The average of turnaround divided by runtime at speed 1; runtimes below ten seconds count as ten,
    /// quotients below one as one.
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

/// One of the choices for the first request, with the simulated queue behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// The platform of the first request.
    pub platform: usize,
    /// The mean of the metric over the forecasts; smaller is better.
    pub score: f64,
    /// The forecasts for the first request and each one behind it, up to the depth or to the first that never
    /// fits.
    pub forecasts: Vec<Forecast>,
}

/// The forecast of the platform and time of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The position of its platform among the platforms.
    pub platform: usize,
    /// The start in seconds.
    pub starts_at: f64,
    /// The end in seconds.
    pub ends_at: f64,
}

impl Tla {
    /// Returns all choices for the first request, the fastest platform first; none if it fits nowhere or
    /// nothing waits.
    ///
    /// # Panics
    /// A running request's platform is not among the platforms.
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

    /// Returns ranks for the first requests. O(running × log running + candidates × depth × (platforms + log
    /// running)).
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

    /// Returns the sum of the metric with the first request on this platform. Branches have the same number
    /// of terms, so that sums compare as means do.
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
            // A request that never fits stops the queue, in every branch alike.
            let Some(planned) = horizon.put_next(request, self.inner) else { break };
            hear(&planned);
            sum += self.metric.of(request, &planned);
        }
        sum
    }
}
