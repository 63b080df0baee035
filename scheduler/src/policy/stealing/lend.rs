//! Lending: tasks stay with their data as in MDL, and an idle pilot may steal a task that would wait longer
//! there than the thief needs to fetch its data.
//!
//! Ours, not the paper's; it has no threshold to choose. Like FLDS it acts on long queues, but at the moment
//! when a pilot is idle, and for each task by the cost of the move.

use super::{Pace, Ready, mdl};

pub(super) fn is_light(bytes: u64) -> bool {
    mdl::is_light(bytes)
}

/// Returns the bytes of the largest input, with which the task waits. All other inputs have to be fetched
/// anywhere.
pub(super) fn weight(task: &Ready<'_>) -> u64 {
    task.largest().map_or(0, |input| input.bytes)
}

pub(super) fn may_leave(n_waiting: usize, bytes: u64, pace: &Pace) -> bool {
    n_waiting as f64 / pace.tasks_per_s > bytes as f64 / pace.bytes_per_s
}
