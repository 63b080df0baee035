//! Any platform that has room, by lot. An inner policy of the look-ahead only (paper 001, figure 12).

use super::floor::with_room;
use crate::luck::Luck;

pub(super) fn choose(free: &[u64], cores: u64, luck: &mut Luck) -> Option<usize> {
    let n = with_room(free, cores).count() as u64;
    with_room(free, cores).nth(luck.below(n) as usize)
}
