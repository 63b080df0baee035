//! Random numbers of the distributions that paper 002 names.

use scheduler::rng::Rng;

use crate::draw;

/// Number of halvings of an interval: beyond the resolution of a float.
const N_HALVINGS: u32 = 100;

/// Draws from a gamma distribution of this mean and coefficient of variation (at most 1); without variation,
/// returns the mean.
fn gamma(luck: &mut Rng, mean: f64, variation: f64) -> f64 {
    if variation <= 0.0 {
        return mean;
    }
    let shape = 1.0 / variation.powi(2);
    draw::gamma(shape, luck) * mean / shape
}

/// Draws times by the coefficient-of-variation method (Ali, Siegel and others, 2000, "CVB"): first a row's
/// mean around 100, then each of its times around that mean.
pub(super) fn times(
    luck: &mut Rng,
    n_rows: usize,
    n_columns: usize,
    of_rows: f64,
    of_columns: f64,
) -> Vec<Vec<f64>> {
    let row = |luck: &mut Rng| {
        let mean = gamma(luck, 100.0, of_rows);
        (0..n_columns).map(|_| gamma(luck, mean, of_columns)).collect()
    };
    (0..n_rows).map(|_| row(luck)).collect()
}

/// A Pareto distribution between two bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoundedPareto {
    low: f64,
    high: f64,
    exponent: f64,
}

impl BoundedPareto {
    /// Finds the exponent that gives this mean, which must be between the means of the exponents 0 and 5.
    pub(super) fn of_mean(low: f64, high: f64, mean: f64) -> BoundedPareto {
        let (mut least, mut most) = (1e-9, 5.0);
        for _ in 0..N_HALVINGS {
            let exponent = f64::midpoint(least, most);
            if (BoundedPareto { low, high, exponent }).mean() > mean {
                least = exponent;
            } else {
                most = exponent;
            }
        }
        BoundedPareto { low, high, exponent: f64::midpoint(least, most) }
    }

    fn mean(&self) -> f64 {
        let (a, ratio) = (self.exponent, self.low / self.high);
        if (a - 1.0).abs() < 1e-9 {
            return self.low * -ratio.ln() / (1.0 - ratio);
        }
        a * self.low / (a - 1.0) * (1.0 - ratio.powf(a - 1.0)) / (1.0 - ratio.powf(a))
    }

    pub(super) fn draw(&self, luck: &mut Rng) -> f64 {
        draw::bounded_pareto((self.low, self.high), self.exponent, luck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(n: u64, (mean, variation): (f64, f64), mut draw: impl FnMut(&mut Rng) -> f64) {
        let mut luck = Rng::new(7);
        let all: Vec<f64> = (0..n).map(|_| draw(&mut luck)).collect();
        let found = all.iter().sum::<f64>() / n as f64;
        let squares = all.iter().map(|x| (x - found).powi(2)).sum::<f64>() / n as f64;
        assert!((found / mean - 1.0).abs() < 0.02, "mean {found}, not {mean}");
        let ratio = squares.sqrt() / found;
        assert!((ratio / variation - 1.0).abs() < 0.02, "variation {ratio}, not {variation}");
    }

    #[test]
    fn gamma_has_its_mean_and_variation() {
        for variation in [0.1, 0.6, 1.0] {
            check(100_000, (100.0, variation), |luck| gamma(luck, 100.0, variation));
        }
        assert_eq!(gamma(&mut Rng::new(1), 3.0, 0.0), 3.0);
    }

    #[test]
    fn a_bounded_pareto_has_its_mean() {
        let tasks = BoundedPareto::of_mean(1.0, 1000.0, 100.0);
        assert!((tasks.mean() - 100.0).abs() < 1e-9);
        // The mean of the squares, from the density.
        let (a, ratio) = (tasks.exponent, 0.001_f64);
        let squares = a / (a - 2.0) * (1.0 - ratio.powf(a - 2.0)) / (1.0 - ratio.powf(a));
        let variation = (squares / 100.0_f64.powi(2) - 1.0).sqrt();
        check(200_000, (100.0, variation), |luck| tasks.draw(luck));
        let mut luck = Rng::new(3);
        assert!((0..10_000).map(|_| tasks.draw(&mut luck)).all(|x| (1.0..=1000.0).contains(&x)));
    }

    #[test]
    fn times_vary_within_and_between_rows() {
        let times = times(&mut Rng::new(5), 2000, 50, 0.3, 0.6);
        let means: Vec<f64> = times.iter().map(|row| row.iter().sum::<f64>() / 50.0).collect();
        let mean = means.iter().sum::<f64>() / 2000.0;
        assert!((mean / 100.0 - 1.0).abs() < 0.05, "{mean}");
        let spread = (means.iter().map(|x| (x / mean - 1.0).powi(2)).sum::<f64>() / 2000.0).sqrt();
        // The variation of the rows, and a fiftieth of the variance within them.
        assert!((spread - (0.09_f64 + 0.36 * 1.09 / 50.0).sqrt()).abs() < 0.02, "{spread}");
    }
}
