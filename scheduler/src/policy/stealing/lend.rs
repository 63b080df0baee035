//! Lending: tasks stay with their data as in MDL, and an idle pilot may take those that would wait there longer
//! than it needs to fetch what they leave behind.
//!
//! Ours, not the paper's; it has no threshold to choose. It takes FLDS's question, whether a queue is too long,
//! to the moment when somebody has nothing to do, and answers it for each task by what the move costs.

use super::{Pace, Ready, mdl};

pub(super) fn is_light(bytes: u64) -> bool {
    mdl::is_light(bytes)
}

/// What it leaves behind: the input that it waits with. All others have to be fetched anywhere.
pub(super) fn weight(task: &Ready<'_>) -> u64 {
    task.largest().map_or(0, |input| input.bytes)
}

pub(super) fn may_leave(n_waiting: usize, bytes: u64, pace: &Pace) -> bool {
    n_waiting as f64 / pace.tasks_per_s > bytes as f64 / pace.bytes_per_s
}
