//! The sound form of paper 003's Algorithm 4: half as many vCPUs when too many attempts fail, and none added
//! for a while; a small step more when few fail, but only while work waits that could use them; in between
//! nothing changes. (Additive increase, multiplicative decrease, as in Chiu and Jain 1989.)

use super::{Interval, Scaler, Seen, Why};

/// Errors are few below this part of what is allowed.
const FEW: f64 = 0.5;

/// How many vCPUs a core has next, and why.
pub(super) fn decide(scaler: &Scaler, interval: &Interval, seen: &Seen) -> (f64, Why) {
    let (ratio, settings) = (scaler.ratio, &scaler.settings);
    let Some(errors) = seen.errors() else { return (ratio, Why::NothingEnded) };
    if errors > settings.errors_max {
        return (ratio / 2.0, Why::Errors);
    }
    if errors >= settings.errors_max * FEW {
        return (ratio, Why::InBand);
    }
    if interval.at < scaler.held_until {
        return (ratio, Why::Held);
    }
    if !seen.has_demand(ratio, interval.n_cores) {
        return (ratio, Why::NoDemand);
    }
    (ratio + settings.step, Why::Room)
}
