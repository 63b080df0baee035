//! Random numbers from distributions: of the papers' worlds, of the workload models and of scenarios.

use std::f64::consts::TAU;

use scheduler::rng::Rng;

/// Draws uniformly from 0 (included) to 1 (excluded).
pub(crate) fn uniform(luck: &mut Rng) -> f64 {
    // A float holds the upper 53 bits.
    (luck.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws from the exponential distribution with mean 1.
pub(crate) fn exponential(luck: &mut Rng) -> f64 {
    // Zero has no logarithm.
    -(1.0 - uniform(luck)).ln()
}

/// Draws from the normal distribution with mean 0 and variance 1 (Box and Muller, 1958).
pub(crate) fn normal(luck: &mut Rng) -> f64 {
    let radius = (2.0 * exponential(luck)).sqrt();
    radius * (TAU * uniform(luck)).cos()
}

/// Draws from the gamma distribution with this shape, at least 1, and scale 1 (Marsaglia and Tsang, 2000).
pub(crate) fn gamma(shape: f64, luck: &mut Rng) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(luck);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && -exponential(luck) < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Draws from a power law with this exponent, above 0, cut off at both ends.
pub(crate) fn bounded_pareto((low, high): (f64, f64), exponent: f64, luck: &mut Rng) -> f64 {
    let share = 1.0 - (low / high).powf(exponent);
    let drawn = low * (1.0 - uniform(luck) * share).powf(-1.0 / exponent);
    // Rounding may exceed the ends.
    drawn.clamp(low, high)
}

/// Draws a position, with a probability proportional to its weight; the last if rounding leaves none.
pub(crate) fn weighted(weights: &[f64], luck: &mut Rng) -> usize {
    let mut left = uniform(luck) * weights.iter().sum::<f64>();
    let is_it = |weight: &f64| {
        left -= weight;
        left < 0.0
    };
    weights.iter().position(is_it).unwrap_or(weights.len().saturating_sub(1))
}

/// Shuffles the slice, each order with equal probability (Fisher and Yates, 1938).
pub(crate) fn shuffle<T>(all: &mut [T], luck: &mut Rng) {
    for last in (1..all.len()).rev() {
        all.swap(last, luck.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use scheduler::rng::Rng;

    /// Makes many draws.
    fn draws(draw: impl Fn(&mut Rng) -> f64) -> Vec<f64> {
        let mut luck = Rng::new(11);
        (0..40_000).map(|_| draw(&mut luck)).collect()
    }

    #[track_caller]
    fn check(mean: f64, variance: f64, draw: impl Fn(&mut Rng) -> f64) {
        let draws = draws(draw);
        let m = draws.iter().sum::<f64>() / draws.len() as f64;
        let v = draws.iter().map(|x| (x - m).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((m - mean).abs() < 0.03 * variance.sqrt(), "{m}, not {mean}");
        assert!((v / variance - 1.0).abs() < 0.05, "{v}, not {variance}");
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        check(0.5, 1.0 / 12.0, super::uniform);
        check(1.0, 1.0, super::exponential);
        check(0.0, 1.0, super::normal);
        check(1.0, 1.0, |luck| super::gamma(1.0, luck));
        check(312.0, 312.0, |luck| super::gamma(312.0, luck));
        check(1.5, 0.75, |luck| super::weighted(&[1.0, 0.0, 3.0], luck) as f64);
        // The expected values follow from the density a/(1 - (low/high)^a) · low^a · x^(-a-1).
        check(2.118_31, 2.211_4, |luck| super::bounded_pareto((1.0, 10.0), 1.5, luck));
    }

    #[test]
    fn a_bounded_pareto_keeps_its_bounds_and_reaches_their_neighbourhood() {
        // The exponent is so small that many values are near the upper end.
        let draws = draws(|luck| super::bounded_pareto((3.0, 9.0), 0.1, luck));
        assert!(draws.iter().all(|x| (3.0..=9.0).contains(x)));
        let within = |from: f64, to: f64| draws.iter().filter(|x| (from..=to).contains(*x)).count();
        assert!(within(3.0, 3.01) > 50 && within(8.99, 9.0) > 10);
    }

    #[test]
    fn every_order_is_as_probable_as_another() {
        let mut luck = Rng::new(11);
        let mut n_by_order: BTreeMap<[u8; 4], u64> = BTreeMap::new();
        for _ in 0..24_000 {
            let mut order = [1, 2, 3, 4];
            super::shuffle(&mut order, &mut luck);
            *n_by_order.entry(order).or_default() += 1;
        }
        assert_eq!(n_by_order.len(), 24);
        assert!(n_by_order.values().all(|n| (850..1150).contains(n)), "{n_by_order:?}");
        super::shuffle::<u8>(&mut [], &mut luck);
    }
}
