//! Placement: the platform of the next allocation.
//!
//! Allocations are rigid: a number of cores, on one platform, all at once. They wait in one queue and start
//! in its order, first come first served, without backfilling (paper 001). All functions are pure; times are
//! in seconds since any moment that the caller chooses.

mod ai2;
mod best_fit;
mod fastest_first;
mod floor;
mod horizon;
pub mod pilots;
mod random;
mod tla;
mod worst_fit;

use serde::{Deserialize, Serialize};

pub use tla::{Branch, Forecast, Inner, Metric, Tla};

use floor::Floor;

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The platform where the fewest cores are left over: see `best_fit.rs`.
    BestFit,
    /// The fastest platform that has room: see `fastest_first.rs`.
    FastestFirst,
    /// The better of both for the other requests that could start now: see `ai2.rs`.
    Ai2,
    /// The best one for all waiting requests, by simulation: see `tla.rs`.
    Tla(Tla),
}

impl Default for Placement {
    fn default() -> Placement {
        Placement::Tla(Tla::default())
    }
}

/// The properties of a platform that placement uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Platform {
    /// Number of free cores.
    pub n_free: u64,
    /// Speed relative to a platform of speed 1, for all applications; positive.
    pub speed: f64,
}

/// A running request and its estimated end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// Its platform, by position.
    pub platform: usize,
    /// Number of cores that it will free.
    pub cores: u64,
    /// The estimated end, in seconds; an end in the past counts as now.
    pub ends_at: f64,
}

/// A request that waits to be placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Number of cores, all on one platform.
    pub cores: u64,
    /// When it was submitted, in seconds.
    pub submitted_at: f64,
    /// The estimated runtime on a platform of speed 1, in seconds.
    pub runtime: f64,
}

/// The input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The present time in seconds.
    pub now: f64,
    /// The platforms; results name them by position.
    pub platforms: &'a [Platform],
    /// The running requests, in any order.
    pub running: &'a [Running],
    /// The waiting requests, in the order in which they start.
    pub waiting: &'a [Request],
}

impl Placement {
    /// Returns platforms for the requests at the head of the queue. Empty: the first fits nowhere, so nothing
    /// can start now. Otherwise the first platform is for the first request, which starts now; any more are
    /// plans for the requests after it, to be dropped when one of them turns out not to fit there first.
    ///
    /// O(platforms) for [`Placement::BestFit`] and [`Placement::FastestFirst`], O(waiting × platforms) for
    /// [`Placement::Ai2`]; for [`Placement::Tla`] see there.
    ///
    /// # Panics
    /// A running request's platform is not among the platforms.
    pub fn place(self, scene: &Scene<'_>) -> Vec<usize> {
        let Some((head, behind)) = scene.waiting.split_first() else { return Vec::new() };
        let floor = Floor::new(scene.platforms);
        let ranks = match self {
            Placement::BestFit => best_fit::choose(&floor.free, head.cores).into_iter().collect(),
            Placement::FastestFirst => fastest_first::choose(&floor.free, head.cores).into_iter().collect(),
            Placement::Ai2 => ai2::choose(&floor, head, behind).into_iter().collect(),
            Placement::Tla(tla) => tla.plan(&floor, scene, head, behind),
        };
        ranks.into_iter().map(|rank| floor.platforms[rank]).collect()
    }
}

#[cfg(test)]
mod tests;
