//! Pace of a transfer: whoever moves next to nothing within some time stands still.

use std::time::{Duration, Instant};

/// Whoever sends or takes less than this on average, in bytes a second, stands still.
const FLOOR_BYTES_PER_S: f64 = 256.0;

/// How fast something comes: so much at least within the time that is waited.
pub(super) struct Pace {
    patience: Duration,
    since: Instant,
    n_bytes: u64,
}

impl Pace {
    pub(super) fn new(patience: Duration) -> Pace {
        Pace { patience, since: Instant::now(), n_bytes: 0 }
    }

    /// So much more has come. When it is enough, the time begins anew.
    pub(super) fn add(&mut self, n_bytes: u64) {
        self.n_bytes += n_bytes;
        if self.n_bytes >= floor_bytes(self.patience) {
            *self = Pace::new(self.patience);
        }
    }

    /// How long it may take until enough has come.
    pub(super) fn left(&self) -> Duration {
        self.patience.saturating_sub(self.since.elapsed())
    }

    /// What is said of who is too slow.
    pub(super) fn words(&self) -> String {
        let seconds = self.patience.as_secs_f64();
        match self.n_bytes {
            0 => format!("has sent nothing for {seconds} s"),
            n => format!("has sent no more than {n} bytes within {seconds} s"),
        }
    }
}

/// Who moves less than this in that time stands still.
pub(in crate::staging) fn floor_bytes(patience: Duration) -> u64 {
    (FLOOR_BYTES_PER_S * patience.as_secs_f64()) as u64
}
