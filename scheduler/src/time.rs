//! Points in time and spans, in whole microseconds. Never read here, only passed in.

use std::{fmt, ops};

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, on the manager's own monotonic clock.
///
/// The shell anchors it to the wall clock once, at start; so it may be shown to people, and two
/// of one process may be subtracted. Times of two hosts are never compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Time(pub u64);

/// A length of time in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Span(pub u64);

impl Time {
    /// The span since `earlier`; zero when `earlier` is later.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl From<Span> for std::time::Duration {
    fn from(span: Span) -> std::time::Duration {
        std::time::Duration::from_micros(span.0)
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// A span of whole seconds.
    pub const fn from_secs(seconds: u64) -> Span {
        Span(seconds.saturating_mul(1_000_000))
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Span {
        Span(milliseconds.saturating_mul(1_000))
    }

    /// A span of so many seconds, to the nearest microsecond; zero of what is below or no number.
    pub fn from_secs_f64(seconds: f64) -> Span {
        Span((seconds * 1e6).round() as u64)
    }

    /// The span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span `n` times over.
    pub fn times(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }
}

impl ops::Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl ops::Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000_000;
        match seconds {
            0 => write!(f, "{}ms", self.0 / 1000),
            1..60 => write!(f, "{:.1}s", self.as_secs_f64()),
            60..3600 => write!(f, "{}m {:02}s", seconds / 60, seconds % 60),
            3600..86400 => write!(f, "{}h {:02}m", seconds / 3600, seconds / 60 % 60),
            _ => write!(f, "{}d {:02}h", seconds / 86400, seconds / 3600 % 24),
        }
    }
}
