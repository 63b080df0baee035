//! The policies that operators have set, and their history.

use crate::engine::interface::views::policies::PolicyChange;

/// Number of changes that are kept.
const N_CHANGES_MAX: usize = 100;

/// Adds a change and forgets the oldest if there are too many.
pub(in crate::engine) fn remember(changes: &mut Vec<PolicyChange>, change: PolicyChange) {
    if changes.len() >= N_CHANGES_MAX {
        changes.remove(0);
    }
    changes.push(change);
}
