//! The policies that operators have set, and their history.

use crate::engine::interface::views::policies::PolicyChange;

/// Changes that are remembered.
const N_CHANGES_MAX: usize = 100;

/// One more change; of many the oldest is forgotten.
pub(in crate::engine) fn remember(changes: &mut Vec<PolicyChange>, change: PolicyChange) {
    if changes.len() >= N_CHANGES_MAX {
        changes.remove(0);
    }
    changes.push(change);
}
