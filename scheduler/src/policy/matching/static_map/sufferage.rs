//! Sufferage: in rounds each task claims the machine where it would end first. Among several claimants the
//! task that would lose most on its next best machine keeps it; the others wait for the next round.

use super::{Assignment, Best, Floor};

pub(super) fn assign(mut floor: Floor<'_>) -> Vec<Assignment> {
    let mut left: Vec<usize> = (0..floor.times.n_rows()).collect();
    while !left.is_empty() {
        let mut kept: Vec<Option<(usize, Best)>> = vec![None; floor.free_at.len()];
        for task in &left {
            let best = floor.best(*task);
            let keeper = &mut kept[best.machine];
            if keeper.is_none_or(|(_, other)| sufferage(best) > sufferage(other)) {
                *keeper = Some((*task, best));
            }
        }
        let mut is_given = vec![false; floor.times.n_rows()];
        for (task, best) in kept.into_iter().flatten() {
            floor.give(task, best);
            is_given[task] = true;
        }
        left.retain(|task| !is_given[*task]);
    }
    floor.given
}

fn sufferage(best: Best) -> f64 {
    best.second - best.end
}
