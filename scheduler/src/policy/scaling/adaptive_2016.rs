//! The scaling of 2016, as printed (paper 003, Algorithm 4): one vCPU a core fewer when too many attempts
//! fail, else one more.
//!
//! The printed `else` also holds when too many fail and there is one vCPU a core: it adds one. There is no
//! band in which nothing changes, so it swings for ever; and it adds whether or not anything waits.

use super::{Scaler, Seen, Why};

/// How many vCPUs a core has next, and why. The paper does not say what the error rate of no attempt is:
/// nothing changes then.
pub(super) fn decide(scaler: &Scaler, seen: &Seen) -> (f64, Why) {
    match seen.errors() {
        None => (scaler.ratio, Why::NothingEnded),
        Some(errors) if errors > scaler.settings.errors_max && scaler.ratio > 1.0 => {
            (scaler.ratio - 1.0, Why::Errors)
        }
        Some(errors) if errors > scaler.settings.errors_max => (scaler.ratio + 1.0, Why::Errors),
        Some(_) => (scaler.ratio + 1.0, Why::Room),
    }
}
