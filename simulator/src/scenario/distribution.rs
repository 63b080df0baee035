//! Distributions of spans: constant or random.

use scheduler::{rng::Rng, time::Span};

use crate::draw;

/// A distribution of spans; its parameters are seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always this span.
    Constant(f64),
    /// Uniform between two spans.
    Uniform {
        /// The shortest.
        low: f64,
        /// The longest.
        high: f64,
    },
    /// Exponential, with this mean.
    Exponential(f64),
    /// Lognormal.
    Lognormal {
        /// The mean of the span, not of its logarithm.
        mean: f64,
        /// Standard deviation divided by mean.
        spread: f64,
    },
    /// Many short spans and few that are very long: a power law cut off at both ends.
    BoundedPareto {
        /// The exponent: the smaller, the more of the total is in long spans.
        shape: f64,
        /// The shortest.
        low: f64,
        /// The longest.
        high: f64,
    },
}

impl Distribution {
    /// Draws one span; the same for the same state of the generator.
    pub fn draw(&self, luck: &mut Rng) -> Span {
        let seconds = match *self {
            Distribution::Constant(seconds) => seconds,
            Distribution::Uniform { low, high } => low + (high - low) * draw::uniform(luck),
            Distribution::Exponential(mean) => mean * draw::exponential(luck),
            Distribution::Lognormal { mean, spread } => {
                let variance = (1.0 + spread * spread).ln();
                mean * (variance.sqrt() * draw::normal(luck) - variance / 2.0).exp()
            }
            Distribution::BoundedPareto { shape, low, high } => {
                draw::bounded_pareto((low, high), shape, luck)
            }
        };
        span(seconds)
    }
}

impl Distribution {
    /// Returns seconds that almost no span exceeds.
    pub fn longest(&self) -> f64 {
        match *self {
            Distribution::Constant(seconds) => seconds,
            Distribution::Uniform { high, .. } | Distribution::BoundedPareto { high, .. } => high,
            // One of 20,000 draws is longer.
            Distribution::Exponential(mean) => 10.0 * mean,
            Distribution::Lognormal { mean, spread } => mean * (1.0 + 10.0 * spread),
        }
    }
}

/// Converts seconds to a span.
pub fn span(seconds: f64) -> Span {
    // A float beyond the range becomes the end of the range.
    Span((seconds * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use scheduler::rng::Rng;

    use super::Distribution;

    fn draws(distribution: Distribution) -> Vec<f64> {
        let mut luck = Rng::new(3);
        (0..200_000).map(|_| distribution.draw(&mut luck).as_secs_f64()).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[track_caller]
    fn check(distribution: Distribution, expected: f64, low: f64, high: f64) -> Vec<f64> {
        let values = draws(distribution);
        let found = mean(&values);
        assert!((found / expected - 1.0).abs() < 0.02, "{distribution:?}: mean {found}, not {expected}");
        assert!(values.iter().all(|value| (low..=high).contains(value)), "{distribution:?}");
        values
    }

    #[test]
    fn means_are_those_asked_for_and_bounds_are_kept() {
        check(Distribution::Constant(4.5), 4.5, 4.5, 4.5);
        check(Distribution::Uniform { low: 1.0, high: 3.0 }, 2.0, 1.0, 3.0);
        check(Distribution::Exponential(10.0), 10.0, 0.0, 1e3);
        let values = check(Distribution::Lognormal { mean: 40.0, spread: 0.5 }, 40.0, 0.1, 1e4);
        let variance = mean(&values.iter().map(|value| (value - 40.0).powi(2)).collect::<Vec<_>>());
        assert!((variance.sqrt() / 40.0 - 0.5).abs() < 0.02, "{variance}");
        // The mean of a Pareto of exponent 2 between 1 and 100: 2 · (1 - 1/100) / (1 - 1/10,000).
        check(Distribution::BoundedPareto { shape: 2.0, low: 1.0, high: 100.0 }, 1.980_2, 1.0, 100.0);
    }
}
