//! Random: each node gets any of the combinations that fit (paper 000, section 5.4).

use super::Floor;

pub(super) fn fill(floor: &mut Floor<'_>) {
    loop {
        let fitting = (0..floor.n_nodes.len()).filter(|at| floor.n_possible(*at) > 0);
        let fitting: Vec<usize> = fitting.collect();
        let Some(chosen) = fitting.get(floor.luck.below(fitting.len() as u64) as usize) else { return };
        floor.put(*chosen, 1);
    }
}
