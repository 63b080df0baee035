//! Affinity-based round-robin: users choose their co-runners in turns, for a few nodes at a time (paper 000,
//! section 5.4).

use super::Floor;

pub(super) fn fill(floor: &mut Floor<'_>, unit_nodes: u64) {
    let mut open: Vec<usize> = (0..floor.left.len()).collect();
    while floor.n_free > 0 && !open.is_empty() {
        open.retain(|user| match floor.best_for(*user) {
            Some(combination) => {
                floor.put(combination, unit_nodes.max(1));
                true
            }
            None => false,
        });
    }
}
