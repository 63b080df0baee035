//! The sound form of paper 003's Algorithm 4: half as many vCPUs when too many attempts fail, and none added
//! for a while; a small step more when few fail, but only while work waits that could use them; in between
//! nothing changes. (Additive increase, multiplicative decrease, as in Chiu and Jain 1989.)

use super::{Scaler, Seen, Why};

/// Errors are few below this part of what is allowed.
const FEW: f64 = 0.5;

/// How many vCPUs a core has next, and why.
pub(super) fn decide(scaler: &Scaler, seen: &Seen) -> (f64, Why) {
    let Some(errors) = seen.errors() else { return (scaler.ratio, Why::NothingEnded) };
    if errors > scaler.settings.errors_max {
        return (scaler.ratio / 2.0, Why::Errors);
    }
    if errors >= scaler.settings.errors_max * FEW {
        return (scaler.ratio, Why::InBand);
    }
    if seen.at < scaler.held_until {
        return (scaler.ratio, Why::Held);
    }
    if seen.n_queued as f64 <= scaler.ratio * seen.n_cores as f64 {
        return (scaler.ratio, Why::NoDemand);
    }
    (scaler.ratio + scaler.settings.step, Why::FewErrors)
}
