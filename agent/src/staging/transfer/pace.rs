//! The pace of a transfer: one that moves nearly nothing for some time counts as stuck.

use std::time::{Duration, Instant};

/// Lowest average speed in bytes per second; a slower transfer counts as stuck.
const FLOOR_BYTES_PER_S: f64 = 256.0;

/// Checks that enough bytes come within the patience.
pub(super) struct Pace {
    patience: Duration,
    since: Instant,
    n_bytes: u64,
}

impl Pace {
    pub(super) fn new(patience: Duration) -> Pace {
        Pace { patience, since: Instant::now(), n_bytes: 0 }
    }

    /// Adds received bytes. After enough bytes the time begins again.
    pub(super) fn add(&mut self, n_bytes: u64) {
        self.n_bytes += n_bytes;
        if self.n_bytes >= floor_bytes(self.patience) {
            *self = Pace::new(self.patience);
        }
    }

    /// Returns the time left until enough bytes must have come.
    pub(super) fn left(&self) -> Duration {
        self.patience.saturating_sub(self.since.elapsed())
    }

    /// Returns a clause about a server that is too slow.
    pub(super) fn words(&self) -> String {
        let seconds = self.patience.as_secs_f64();
        match self.n_bytes {
            0 => format!("has sent nothing for {seconds} s"),
            n => format!("has sent no more than {n} bytes within {seconds} s"),
        }
    }
}

/// Returns the fewest bytes that must be moved in `patience`.
pub(in crate::staging) fn floor_bytes(patience: Duration) -> u64 {
    (FLOOR_BYTES_PER_S * patience.as_secs_f64()) as u64
}
