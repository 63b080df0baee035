//! So many tasks a bundle, whatever they take: the baselines that bin packing is measured against. The
//! largest go first, as there.

use super::Estimates;

/// At least one.
pub(super) fn take(waiting: &mut Estimates, n_tasks: u64) -> Vec<f64> {
    let mut bundle = Vec::new();
    while (bundle.len() as u64) < n_tasks.max(1)
        && let Some(estimate) = waiting.take_at_most(f64::MAX)
    {
        bundle.push(estimate);
    }
    bundle
}
