//! Worst fit: where the most cores are left over, ties to the fastest. An inner policy of the look-ahead only
//! (paper 001, figure 12).

use super::floor::with_room;

pub(super) fn choose(free: &[u64], cores: u64) -> Option<usize> {
    let more = |best: usize, rank: usize| if free[rank] > free[best] { rank } else { best };
    with_room(free, cores).reduce(more)
}
