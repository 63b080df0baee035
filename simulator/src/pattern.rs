//! Arrivals of work over time: the four workload patterns of paper 003, usable by any scenario.
//!
//! Their names are usual in work on the scaling of clouds, their shapes are chosen here. A pattern is a rate
//! over a period, piecewise linear with mean 1; it determines when each part of the work has arrived.

use scheduler::rng::Rng;

use crate::draw;

/// The change of the rate of arrivals over a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The same rate all the time.
    Stable,
    /// Rising linearly from 0.2 to 1.8 times the mean.
    Growing,
    /// Up and down four times, linearly between 0.2 and 1.8 times the mean.
    Bursting,
    /// Four times: twice the mean, then nothing for as long.
    OnAndOff,
}

/// A piece of a pattern: its part of the time, and the rate at its beginning and at its end.
type Piece = (f64, f64, f64);

impl Pattern {
    /// All patterns.
    pub const ALL: [Pattern; 4] = [Pattern::Stable, Pattern::Growing, Pattern::Bursting, Pattern::OnAndOff];

    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            Pattern::Stable => "stable",
            Pattern::Growing => "growing",
            Pattern::Bursting => "bursting",
            Pattern::OnAndOff => "on-and-off",
        }
    }

    /// Returns the number of repetitions, and the repeated pieces.
    fn pieces(self) -> (u32, &'static [Piece]) {
        match self {
            Pattern::Stable => (1, &[(1.0, 1.0, 1.0)]),
            Pattern::Growing => (1, &[(1.0, 0.2, 1.8)]),
            Pattern::Bursting => (4, &[(0.5, 0.2, 1.8), (0.5, 1.8, 0.2)]),
            Pattern::OnAndOff => (4, &[(0.5, 2.0, 2.0), (0.5, 0.0, 0.0)]),
        }
    }

    /// Returns the time at which this part of the work has arrived, both from 0 to 1; a part beyond counts as
    /// the nearer end.
    pub fn when(self, part: f64) -> f64 {
        let (n_repeats, pieces) = self.pieces();
        let scaled = part.clamp(0.0, 1.0) * f64::from(n_repeats);
        let repeat = scaled.floor().min(f64::from(n_repeats - 1));
        let (mut left, mut time) = (scaled - repeat, 0.0);
        for (length, from, to) in pieces.iter().copied() {
            let area = length * (from + to) / 2.0;
            if left <= area && area > 0.0 {
                time += length * within(left / length, from, to);
                break;
            }
            left -= area;
            time += length;
        }
        (repeat + time.min(1.0)) / f64::from(n_repeats)
    }

    /// Draws `n` arrivals in this span, ascending, in its unit: one in each n-th part of the work, at a
    /// random place.
    pub fn arrivals(self, n: usize, span: f64, luck: &mut Rng) -> Vec<f64> {
        let mut arrival = |place: usize| span * self.when((place as f64 + draw::uniform(luck)) / n as f64);
        (0..n).map(&mut arrival).collect()
    }
}

/// Returns the place between 0 and 1 at which the area under the line from `from` to `to` equals `area`.
fn within(area: f64, from: f64, to: f64) -> f64 {
    let slope = to - from;
    if slope == 0.0 {
        area / from
    } else {
        // The root of slope/2 · x² + from · x = area, in the form without cancellation.
        2.0 * area / (from + (from * from + 2.0 * slope * area).max(0.0).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use scheduler::rng::Rng;

    use super::Pattern;

    /// Returns the part of the work that arrives in each of eight equal pieces of time.
    fn eighths(pattern: Pattern) -> [f64; 8] {
        let mut parts = [0.0; 8];
        let n = 80_000;
        for k in 0..n {
            let time = pattern.when((f64::from(k) + 0.5) / f64::from(n));
            parts[((time * 8.0) as usize).min(7)] += 8.0 / f64::from(n);
        }
        parts.map(|part| (part * 100.0).round() / 100.0)
    }

    #[test]
    fn shapes() {
        assert_eq!(eighths(Pattern::Stable), [1.0; 8]);
        assert_eq!(eighths(Pattern::Growing), [0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7]);
        assert_eq!(eighths(Pattern::Bursting), [1.0; 8]);
        assert_eq!(eighths(Pattern::OnAndOff), [2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0]);
        // Half of a cycle's work has arrived at its top, where the rate is highest.
        assert!((Pattern::Bursting.when(0.125) - 0.125).abs() < 1e-12);
        let near_the_top = Pattern::Bursting.when(0.13) - Pattern::Bursting.when(0.12);
        let near_the_bottom = Pattern::Bursting.when(0.255) - Pattern::Bursting.when(0.245);
        assert!(near_the_bottom > 3.0 * near_the_top, "{near_the_bottom} against {near_the_top}");
    }

    #[test]
    fn arrivals_ascend_within_the_span() {
        for pattern in Pattern::ALL {
            let arrivals = pattern.arrivals(1000, 50.0, &mut Rng::new(7));
            assert!(arrivals.is_sorted(), "{pattern:?}");
            assert!(arrivals[0] >= 0.0 && arrivals[999] <= 50.0, "{pattern:?}");
            assert_eq!((pattern.when(0.0), pattern.when(-1.0)), (0.0, 0.0));
            assert!(pattern.when(1.0) <= 1.0 && pattern.when(1.0) > 0.8, "{pattern:?}");
        }
    }
}
