//! Platforms by rank: the fastest is 0, ties by position. "The fastest with room" is then the first with
//! room.

use super::Platform;

#[derive(Clone, Debug)]
pub(super) struct Floor {
    /// The position of each rank among the platforms.
    pub platforms: Vec<usize>,
    pub free: Vec<u64>,
    pub speeds: Vec<f64>,
}

impl Floor {
    pub(super) fn new(platforms: &[Platform]) -> Floor {
        let mut order: Vec<usize> = (0..platforms.len()).collect();
        order.sort_by(|a, b| platforms[*b].speed.total_cmp(&platforms[*a].speed));
        Floor {
            free: order.iter().map(|at| platforms[*at].n_free).collect(),
            speeds: order.iter().map(|at| platforms[*at].speed).collect(),
            platforms: order,
        }
    }

    /// Returns the rank of each platform.
    pub(super) fn ranks(&self) -> Vec<usize> {
        let mut ranks = vec![0; self.platforms.len()];
        for (rank, platform) in self.platforms.iter().enumerate() {
            ranks[*platform] = rank;
        }
        ranks
    }
}

/// Returns the ranks of platforms with at least `cores` free cores, fastest first.
pub(super) fn with_room(free: &[u64], cores: u64) -> impl Iterator<Item = usize> {
    free.iter().enumerate().filter(move |(_, n_free)| **n_free >= cores).map(|(rank, _)| rank)
}
