//! Placement: which platform the next allocation goes to.
//!
//! Allocations are rigid: so many cores, on one platform, all at once. They wait in one queue and start in its
//! order, first come first served, without backfilling (paper 001). All functions are pure; times
//! are seconds since whatever moment the caller likes.

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
    /// Where the fewest cores are left over: see `best_fit.rs`.
    BestFit,
    /// The fastest platform that has room: see `fastest_first.rs`.
    FastestFirst,
    /// The better of both for what else could start now: see `ai2.rs`.
    Ai2,
    /// What is best for all that waits, by simulation: see `tla.rs`.
    Tla(Tla),
}

impl Default for Placement {
    fn default() -> Placement {
        Placement::Tla(Tla::default())
    }
}

/// A platform as placement sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Platform {
    /// Cores that nothing runs on.
    pub n_free: u64,
    /// How much faster than a platform of speed 1 it runs everything; positive.
    pub speed: f64,
}

/// What runs, and for how long it will, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Running {
    /// Its position among the platforms.
    pub platform: usize,
    /// Cores that it will give back.
    pub cores: u64,
    /// The estimated end, in seconds; one that has passed counts as now.
    pub ends_at: f64,
}

/// What waits to be placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Cores, all on one platform.
    pub cores: u64,
    /// When it came, in seconds.
    pub submitted_at: f64,
    /// The estimate of how long it will run on a platform of speed 1, in seconds.
    pub runtime: f64,
}

/// The moment of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// In seconds.
    pub now: f64,
    /// Their positions are what answers name.
    pub platforms: &'a [Platform],
    /// In any order.
    pub running: &'a [Running],
    /// In the order in which they start.
    pub waiting: &'a [Request],
}

impl Placement {
    /// Platforms for the requests at the head of the queue. Empty: the first fits nowhere, so that nothing
    /// can start now. Else the first of them is the platform of the first request, which starts now; any more
    /// are plans for the requests after it, to be dropped when one of them turns out not to fit there first.
    ///
    /// O(platforms) for [`Placement::BestFit`] and [`Placement::FastestFirst`], O(waiting × platforms) for
    /// [`Placement::Ai2`]; for [`Placement::Tla`] see there.
    ///
    /// # Panics
    /// Something runs on a platform that is not among the platforms.
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
