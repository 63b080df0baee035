//! Best fit: the platform where the fewest cores are left over, ties to the fastest (BF in paper 001).
//! Ignores runtimes.

use super::floor::with_room;

pub(super) fn choose(free: &[u64], cores: u64) -> Option<usize> {
    with_room(free, cores).min_by_key(|rank| free[*rank] - cores)
}
