//! The only reader of time in the manager.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use scheduler::time::Time;

/// Monotonic time, anchored to the wall clock once: may be shown to people, and never goes back, over
/// restarts neither. What is in the store was before; else whatever waits since then, for a retry or for
/// a listing of its platform, would wait for as long as the clock was put back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    anchor: Instant,
    wall_us: u64,
}

impl Clock {
    /// Anchors the clock now, or at the latest time that is known, when the wall clock is behind it.
    pub fn start(latest: Time) -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_us = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        Clock { anchor: Instant::now(), wall_us: wall_us.max(latest.0) }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        let passed = u64::try_from(self.anchor.elapsed().as_micros()).unwrap_or(u64::MAX);
        Time(self.wall_us.saturating_add(passed))
    }

    /// The instant of a time, for waiting until it.
    pub fn instant(&self, time: Time) -> Instant {
        self.anchor + std::time::Duration::from_micros(time.0.saturating_sub(self.wall_us))
    }
}

#[cfg(test)]
mod tests {
    use scheduler::time::{Span, Time};

    use super::Clock;

    #[test]
    fn a_clock_that_was_put_back_goes_on_from_the_latest_time() {
        let today = Clock::start(Time(0)).now();
        let tomorrow = today + Span::from_secs(86_400);
        assert!(Clock::start(tomorrow).now() >= tomorrow);
        assert!(Clock::start(today).now() < tomorrow);
    }
}
