//! The weights of 2016: LOAD and ERROR as printed (paper 003, eq. 1 and Algorithms 1 to 3).
//!
//! They differ from the paper in one thing: after each step weights are kept within 0 and 1 and brought to
//! sum 1 again; as printed nothing keeps them there. The threshold compares tasks that wait with the size of
//! a job, and rates enter only at the beginning; `adaptive.rs` is the sound form.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::WeightMatrix;

/// The matrix, what it was, and what the threshold is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadAndError {
    initial: WeightMatrix,
    now: WeightMatrix,
    delta: f64,
    n_sizes_max: usize,
    sizes: VecDeque<u64>,
}

/// What a job's submission did to the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjusted {
    /// Nothing: no platform is above the threshold, or the law has no such step.
    Kept,
    /// All platforms are above the threshold: weights are what they were in the beginning.
    Initialized,
    /// Some are: they lost weight to the others.
    Moved {
        /// Rows that would have left 0 to 1.
        n_clamped: usize,
    },
}

impl LoadAndError {
    /// From these weights; `delta`: moved at a time; `n_sizes_max`: jobs that the threshold looks back on
    /// (the paper's m).
    pub fn new(initial: WeightMatrix, delta: f64, n_sizes_max: usize) -> LoadAndError {
        LoadAndError { now: initial.clone(), initial, delta, n_sizes_max, sizes: VecDeque::new() }
    }

    /// With these rows: those of before by their places, and new ones as they are initially.
    ///
    /// # Panics
    /// Places that are none, or fewer initial rows.
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

    /// The weights as they are.
    pub fn matrix(&self) -> &WeightMatrix {
        &self.now
    }

    /// Tasks that wait on a platform above which it is overloaded: the mean size of the last jobs, 0
    /// without any (eq. 1).
    pub fn threshold(&self) -> f64 {
        let sum: f64 = self.sizes.iter().map(|size| *size as f64).sum();
        sum / self.sizes.len().max(1) as f64
    }

    /// A job of so many tasks came and is divided.
    pub fn remember(&mut self, n_tasks: u64) {
        self.sizes.push_back(n_tasks);
        while self.sizes.len() > self.n_sizes_max.max(1) {
            self.sizes.pop_front();
        }
    }

    /// LOAD, after each submission; `queued`: tasks that wait on each platform, those of the new job
    /// included (Algorithm 3).
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

    /// ERROR, when the vCPUs of a core were raised on these platforms: they gain weight from the others.
    /// Gives how many rows would have left 0 to 1. Nothing brings the weight back when vCPUs fall.
    pub fn error(&mut self, has_risen: &[bool]) -> usize {
        let n_risen = has_risen.iter().filter(|risen| **risen).count();
        let n_others = has_risen.len() - n_risen;
        let others: Vec<bool> = has_risen.iter().map(|risen| !risen).collect();
        if n_others == 0 { 0 } else { self.now.shift(&others, self.delta * n_risen as f64 / n_others as f64) }
    }
}
