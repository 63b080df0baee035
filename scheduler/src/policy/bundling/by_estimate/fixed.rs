//! A fixed number of tasks in a bundle, whatever their estimates: the baseline for bin packing. As there, the
//! largest tasks go first.

use super::Estimates;

/// Takes `n_tasks` tasks, at least one.
pub(super) fn take(waiting: &mut Estimates, n_tasks: u64) -> Vec<f64> {
    let mut bundle = Vec::new();
    while (bundle.len() as u64) < n_tasks.max(1)
        && let Some(estimate) = waiting.take_at_most(f64::MAX)
    {
        bundle.push(estimate);
    }
    bundle
}
