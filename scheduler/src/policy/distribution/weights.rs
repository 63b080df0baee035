//! Weights: the parts of an application's tasks that are meant for each platform. Always a distribution.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Tolerance for the sum of weights that a person wrote: a few digits less than written.
const SUM_TOLERANCE: f64 = 1e-6;

/// A part for each platform: none below 0 or above 1, together 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct Weights(Vec<f64>);

/// The reason why numbers are no weights.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NoWeights {
    /// The list is empty.
    #[error("found no weight; there must be one for each platform")]
    Empty,
    /// A number is below 0, above 1 or not a number.
    #[error("found weight {weight} at place {place}; weights are from 0 to 1")]
    NotAShare {
        /// Index of the weight, from 0.
        place: usize,
        /// The weight.
        weight: f64,
    },
    /// The sum is not 1.
    #[error("found weights that sum to {sum}; they must sum to 1")]
    Sum {
        /// The sum.
        sum: f64,
    },
}

/// Weights after a shift from some platforms to the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Shifted {
    /// The new weights.
    pub weights: Weights,
    /// Whether a weight would have left 0 to 1.
    pub was_clamped: bool,
}

impl Weights {
    /// Makes weights in proportion to these amounts. `None`: an amount is below 0 or not finite, or all are
    /// 0.
    pub fn of(amounts: &[f64]) -> Option<Weights> {
        let sum: f64 = amounts.iter().sum();
        let is_fine = sum.is_finite() && sum > 0.0 && amounts.iter().all(|amount| *amount >= 0.0);
        is_fine.then(|| Weights(amounts.iter().map(|amount| amount / sum).collect()))
    }

    /// Makes equal weights for `n_platforms` platforms.
    ///
    /// # Panics
    /// `n_platforms` is 0.
    pub fn equal(n_platforms: usize) -> Weights {
        assert!(n_platforms > 0, "weights are of one platform or more");
        Weights(vec![1.0 / n_platforms as f64; n_platforms])
    }

    /// Returns the weights, in the order of the platforms.
    pub fn shares(&self) -> &[f64] {
        &self.0
    }

    /// Returns the slice of `n_tasks` tasks that each platform is meant to run: adjacent slices, cut at the
    /// number of tasks times the sum of the weights so far, rounded down; the last platform gets the rest.
    /// Each task is in one slice. (Paper 003, Algorithm 2.)
    pub fn split(&self, n_tasks: u64) -> Vec<Range<u64>> {
        let mut sum = 0.0;
        let mut begin = 0;
        let slice = |(place, weight): (usize, &f64)| {
            sum += weight;
            let is_last = place + 1 == self.0.len();
            let end = if is_last { n_tasks } else { ((n_tasks as f64 * sum) as u64).clamp(begin, n_tasks) };
            let slice = begin..end;
            begin = end;
            slice
        };
        self.0.iter().enumerate().map(slice).collect()
    }

    /// Takes `loss` from each loser and gives it to the others in equal parts; then clamps weights to 0 to 1
    /// and normalizes their sum to 1. Nothing moves if all lose, or none.
    ///
    /// # Panics
    /// `loses` does not have an entry for each platform.
    pub fn shift(&self, loses: &[bool], loss: f64) -> Shifted {
        assert_eq!(loses.len(), self.0.len(), "each platform loses or gains");
        let n_losers = loses.iter().filter(|loses| **loses).count();
        let n_gainers = loses.len() - n_losers;
        if n_losers == 0 || n_gainers == 0 {
            return Shifted { weights: self.clone(), was_clamped: false };
        }
        let gain = loss * n_losers as f64 / n_gainers as f64;
        let moved = |(weight, loses): (&f64, &bool)| if *loses { weight - loss } else { weight + gain };
        let moved: Vec<f64> = self.0.iter().zip(loses).map(moved).collect();
        // An error in a float's last digit does not count.
        let was_clamped = moved.iter().any(|weight| *weight < -1e-12 || *weight > 1.0 + 1e-12);
        let kept: Vec<f64> = moved.into_iter().map(|weight| weight.clamp(0.0, 1.0)).collect();
        Shifted { weights: Weights::of(&kept).unwrap_or_else(|| self.clone()), was_clamped }
    }
}

impl TryFrom<Vec<f64>> for Weights {
    type Error = NoWeights;

    fn try_from(shares: Vec<f64>) -> Result<Weights, NoWeights> {
        let is_share = |weight: f64| (0.0..=1.0 + SUM_TOLERANCE).contains(&weight);
        if let Some(place) = shares.iter().position(|weight| !is_share(*weight)) {
            return Err(NoWeights::NotAShare { place, weight: shares[place] });
        }
        let sum: f64 = shares.iter().sum();
        if shares.is_empty() {
            return Err(NoWeights::Empty);
        }
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(NoWeights::Sum { sum });
        }
        Weights::of(&shares).ok_or(NoWeights::Sum { sum })
    }
}

impl From<Weights> for Vec<f64> {
    fn from(weights: Weights) -> Vec<f64> {
        weights.0
    }
}
