//! Hyper-Erlang distributions of common order: one of two rates is chosen at random; the value is the sum of
//! a number of exponential stages at that rate.

use scheduler::rng::Rng;

use crate::draw;

/// The largest number of stages that is tried.
const N_STAGES_MAX: u32 = 64;

/// Two branches with the same number of stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HyperErlang {
    /// Number of stages of each branch.
    pub n_stages: u32,
    /// Probability of the first branch.
    pub probability: f64,
    /// Mean of one stage in each branch.
    pub stage_means: [f64; 2],
}

impl HyperErlang {
    /// Finds a distribution with these first three moments about zero and as few stages as possible (Johnson
    /// and Taaffe, 1989). `None`: there is none of up to 64 stages, as for values that hardly vary.
    pub fn with_moments([first, second, third]: [f64; 3]) -> Option<HyperErlang> {
        (1..=N_STAGES_MAX).find_map(|n_stages| {
            let n = f64::from(n_stages);
            // The remaining factors are the moments of a distribution on the two stage means.
            let [a, b, c] = [first / n, second / (n * (n + 1.0)), third / (n * (n + 1.0) * (n + 2.0))];
            let variance = b - a * a;
            let sum = (c - a * b) / variance;
            let product = (a * c - b * b) / variance;
            let root = (sum * sum - 4.0 * product).sqrt();
            let (large, small) = ((sum + root) / 2.0, (sum - root) / 2.0);
            let fits = variance > 0.0 && product > 0.0 && root > 0.0 && small > 0.0;
            let probability = (a - small) / (large - small);
            (fits && (0.0..=1.0).contains(&probability)).then_some(HyperErlang {
                n_stages,
                probability,
                stage_means: [large, small],
            })
        })
    }

    /// Draws a value.
    pub fn draw(&self, luck: &mut Rng) -> f64 {
        let branch = usize::from(draw::uniform(luck) >= self.probability);
        let stages: f64 = (0..self.n_stages).map(|_| draw::exponential(luck)).sum();
        self.stage_means[branch] * stages
    }

    /// Returns the moment about zero of this order.
    pub fn moment(&self, order: u32) -> f64 {
        let rising: f64 = (0..order).map(|k| f64::from(self.n_stages + k)).product();
        let [large, small] = self.stage_means.map(|mean| mean.powi(order as i32));
        rising * (self.probability * large + (1.0 - self.probability) * small)
    }
}

#[cfg(test)]
mod tests {
    use scheduler::rng::Rng;

    use super::HyperErlang;

    #[test]
    fn three_moments_are_met() {
        // Values far apart; nearly exponential; hardly varying; constant.
        for (moments, n_stages) in
            [([1.0, 10.0, 300.0], Some(1)), ([1.0, 2.1, 7.0], Some(1)), ([10.0, 104.0, 1130.0], Some(26))]
        {
            let fitted = HyperErlang::with_moments(moments).unwrap();
            for (order, moment) in (1..).zip(moments) {
                assert!((fitted.moment(order) / moment - 1.0).abs() < 1e-6, "{fitted:?}");
            }
            assert_eq!(Some(fitted.n_stages), n_stages);
        }
        assert_eq!(HyperErlang::with_moments([1.0, 1.0, 1.0]), None);
    }

    #[test]
    fn draws_have_the_mean() {
        let fitted = HyperErlang::with_moments([3.0, 20.0, 300.0]).unwrap();
        let mut luck = Rng::new(1);
        let mean = (0..50_000).map(|_| fitted.draw(&mut luck)).sum::<f64>() / 50_000.0;
        assert!((mean - 3.0).abs() < 0.06, "{mean}");
    }
}
