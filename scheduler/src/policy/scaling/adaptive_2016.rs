//! The scaling of 2016, as printed (paper 003, Algorithm 4): one vCPU per core fewer if too many attempts
//! fail, else one more.
//!
//! The printed `else` also applies if too many fail and there is one vCPU per core: it adds one. There is no
//! band in which nothing changes, so the ratio swings for ever; and it adds vCPUs whether or not anything
//! waits.

use super::{Scaler, Seen, Why};

/// Returns the next vCPU ratio and the reason. The paper does not define the error rate without attempts:
/// then nothing changes.
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
