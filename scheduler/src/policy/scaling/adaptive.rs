//! The sound form of paper 003's Algorithm 4. It halves the vCPUs if too many attempts fail, and adds none
//! for a while. If few fail, it adds a small step, but only while more work waits than the vCPUs can run. In
//! between nothing changes. (Additive increase, multiplicative decrease, as in Chiu and Jain 1989.)

use super::{Interval, Scaler, Seen, Why};

/// Error rates below this part of the allowed one count as low.
const FEW: f64 = 0.5;

/// Returns the next vCPU ratio and the reason.
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
