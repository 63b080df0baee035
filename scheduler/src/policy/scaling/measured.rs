//! Scaling by the measured CPU time of attempts: a task that computes in a third of its time leaves room for
//! two more on its core. The number of vCPUs that fills the core's time is set at once; errors still halve
//! it, and after that it grows by small steps. Ours: the paper uses errors alone, so it has to cause errors
//! to find the limit. Made for one application at a time, whose tasks are alike.

use super::{Interval, Scaler, Seen, Why};

/// Nothing changes while the ratio differs from the desired one by at most this part.
const BAND: f64 = 0.05;

/// Returns the next vCPU ratio and the reason.
pub(super) fn decide(scaler: &Scaler, interval: &Interval, seen: &Seen) -> (f64, Why) {
    let (ratio, settings) = (scaler.ratio, &scaler.settings);
    let Some(errors) = seen.errors() else { return (ratio, Why::NothingEnded) };
    if errors > settings.errors_max {
        return (ratio / 2.0, Why::Errors);
    }
    let aim = settings.cpu_goal * seen.wall.as_secs_f64() / seen.cpu.as_secs_f64();
    // Without wall time or CPU time nothing was measured.
    if !aim.is_finite() || aim <= 0.0 {
        return (ratio, Why::NothingEnded);
    }
    if aim < ratio * (1.0 - BAND) {
        return (aim, Why::CoresFull);
    }
    if aim <= ratio * (1.0 + BAND) {
        return (ratio, Why::InBand);
    }
    if interval.at < scaler.held_until {
        return (ratio, Why::Held);
    }
    if !seen.has_demand(ratio, interval.n_cores) {
        return (ratio, Why::NoDemand);
    }
    (if scaler.has_failed { aim.min(ratio + settings.step) } else { aim }, Why::Room)
}
