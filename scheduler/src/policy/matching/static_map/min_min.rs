//! Min-Min: assigns the task that can end first, among all tasks, to the machine where it does, and so on.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{Assignment, Floor};

/// Assigns all tasks. Machines only fill up, so a task never ends earlier than when it was last checked, and
/// only the first task of the heap needs another check.
pub(super) fn assign(mut floor: Floor<'_>) -> Vec<Assignment> {
    let entry = |floor: &Floor<'_>, task| Reverse((Key(floor.best(task).end), task));
    let mut line: BinaryHeap<_> = (0..floor.times.n_rows()).map(|task| entry(&floor, task)).collect();
    while let Some(Reverse((Key(end), task))) = line.pop() {
        let best = floor.best(task);
        if best.end > end {
            line.push(Reverse((Key(best.end), task)));
        } else {
            floor.give(task, best);
        }
    }
    floor.given
}

/// A time in seconds, with a total order.
#[derive(PartialEq)]
struct Key(f64);

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
