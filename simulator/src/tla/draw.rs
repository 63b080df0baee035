//! Draws from the distributions that the workload models use.

use std::f64::consts::TAU;

use scheduler::luck::Luck;

/// Evenly from 0 (included) to 1 (not).
pub fn uniform(luck: &mut Luck) -> f64 {
    (luck.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Exponential with mean 1.
pub fn exponential(luck: &mut Luck) -> f64 {
    -(1.0 - uniform(luck)).ln()
}

/// Normal with mean 0 and variance 1 (Box and Muller, 1958).
pub fn normal(luck: &mut Luck) -> f64 {
    let radius = (2.0 * exponential(luck)).sqrt();
    radius * (TAU * uniform(luck)).cos()
}

/// Gamma with this shape, at least 1, and scale 1 (Marsaglia and Tsang, 2000).
pub fn gamma(shape: f64, luck: &mut Luck) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(luck);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - uniform(luck)).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A position, each with a probability proportional to its weight; the last when rounding leaves none.
pub fn weighted(weights: &[f64], luck: &mut Luck) -> usize {
    let mut left = uniform(luck) * weights.iter().sum::<f64>();
    let is_it = |weight: &f64| {
        left -= weight;
        left < 0.0
    };
    weights.iter().position(is_it).unwrap_or(weights.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use scheduler::luck::Luck;

    /// Mean and variance of many draws.
    fn moments(draw: impl Fn(&mut Luck) -> f64) -> (f64, f64) {
        let mut luck = Luck::new(11);
        let draws: Vec<f64> = (0..40_000).map(|_| draw(&mut luck)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        (mean, draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64)
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let check = |draw: &dyn Fn(&mut Luck) -> f64, mean: f64, variance: f64| {
            let (m, v) = moments(draw);
            assert!((m - mean).abs() < 0.03 * variance.sqrt(), "{m}, not {mean}");
            assert!((v / variance - 1.0).abs() < 0.05, "{v}, not {variance}");
        };
        check(&super::uniform, 0.5, 1.0 / 12.0);
        check(&super::exponential, 1.0, 1.0);
        check(&super::normal, 0.0, 1.0);
        check(&|luck| super::gamma(1.0, luck), 1.0, 1.0);
        check(&|luck| super::gamma(312.0, luck), 312.0, 312.0);
        check(&|luck| super::weighted(&[1.0, 0.0, 3.0], luck) as f64, 1.5, 0.75);
    }
}
