//! The only reader of time in the manager.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use scheduler::time::Time;

/// Monotonic time, anchored to the wall clock once: never goes back, may be shown to people.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    anchor: Instant,
    wall_us: u64,
}

impl Clock {
    /// Anchors the clock now.
    pub fn start() -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { anchor: Instant::now(), wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX) }
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
