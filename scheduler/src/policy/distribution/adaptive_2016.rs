//! The weights of 2016: LOAD and ERROR as printed (paper 003, eq. 1 and Algorithms 1 to 3).
//!
//! One thing differs from the paper: after each step weights are kept within 0 and 1 and normalized to sum 1;
//! nothing in the printed algorithms does this. The threshold compares waiting tasks with the size of a job,
//! and rates enter only at the beginning; `adaptive.rs` is the sound form.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::WeightMatrix;

/// The initial and the present weight matrix, and the job sizes behind the threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadAndError {
    initial: WeightMatrix,
    now: WeightMatrix,
    delta: f64,
    n_sizes_max: usize,
    sizes: VecDeque<u64>,
}

/// The effect of a job's submission on the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjusted {
    /// No change: no platform is above the threshold, or the policy has no such step.
    Kept,
    /// All platforms are above the threshold: the initial weights are back.
    Initialized,
    /// Some platforms are above the threshold: they lost weight to the others.
    Moved {
        /// Number of rows that would have left 0 to 1.
        n_clamped: usize,
    },
}

impl LoadAndError {
    /// Starts with these weights. `delta`: the weight moved at a time; `n_sizes_max`: the number of last jobs
    /// behind the threshold (the paper's m).
    pub fn new(initial: WeightMatrix, delta: f64, n_sizes_max: usize) -> LoadAndError {
        LoadAndError { now: initial.clone(), initial, delta, n_sizes_max, sizes: VecDeque::new() }
    }

    /// Returns a copy with other rows. `places`: the previous row of each, or `None` for a new row with its
    /// initial weights.
    ///
    /// # Panics
    /// A place is out of range, or there are too few initial rows.
    pub fn with_rows(&self, places: &[Option<usize>], initial: &WeightMatrix) -> LoadAndError {
        let rows = |known: &WeightMatrix| {
            let row = |(n, place): (usize, &Option<usize>)| match place {
                Some(place) => known.row(*place).clone(),
                None => initial.row(n).clone(),
            };
            WeightMatrix::new(places.iter().enumerate().map(row).collect())
        };
        LoadAndError { initial: rows(&self.initial), now: rows(&self.now), ..self.clone() }
    }

    /// Returns the present weights.
    pub fn matrix(&self) -> &WeightMatrix {
        &self.now
    }

    /// Returns the number of waiting tasks above which a platform is overloaded: the mean size of the last
    /// jobs, 0 without any (eq. 1).
    pub fn threshold(&self) -> f64 {
        let sum: f64 = self.sizes.iter().map(|size| *size as f64).sum();
        sum / self.sizes.len().max(1) as f64
    }

    /// Notes the size of a job that was divided.
    pub fn remember(&mut self, n_tasks: u64) {
        self.sizes.push_back(n_tasks);
        while self.sizes.len() > self.n_sizes_max.max(1) {
            self.sizes.pop_front();
        }
    }

    /// Applies LOAD after a submission. `queued`: tasks that wait on each platform, including the tasks of
    /// the new job (Algorithm 3).
    pub fn load(&mut self, queued: &[u64]) -> Adjusted {
        let threshold = self.threshold();
        let is_over: Vec<bool> = queued.iter().map(|n| *n as f64 > threshold).collect();
        if !is_over.contains(&true) {
            Adjusted::Kept
        } else if is_over.contains(&false) {
            Adjusted::Moved { n_clamped: self.now.shift(&is_over, self.delta) }
        } else {
            self.now = self.initial.clone();
            Adjusted::Initialized
        }
    }

    /// Applies ERROR when the vCPUs per core were raised on these platforms: they gain weight from the
    /// others. Returns the number of rows that would have left 0 to 1. Nothing returns the weight when vCPUs
    /// fall.
    pub fn error(&mut self, has_risen: &[bool]) -> usize {
        let n_risen = has_risen.iter().filter(|risen| **risen).count();
        let n_others = has_risen.len() - n_risen;
        let others: Vec<bool> = has_risen.iter().map(|risen| !risen).collect();
        if n_others == 0 { 0 } else { self.now.shift(&others, self.delta * n_risen as f64 / n_others as f64) }
    }
}
