//! The reproduction of paper 003, part by part.

mod beyond;
mod course;
mod example;
mod gains;
mod remarks;
mod trials;

use scheduler::rng::Rng;

use self::trials::{Trials, contestants};
use super::{workload::Cell, world::Nature};
use crate::report::{Effort, Progress, Report};

/// Offered loads of the 24 cells.
const LOADS: [f64; 2] = [0.9, 1.1];

/// Seeds of each cell, and of each cell in the wider comparisons.
fn n_seeds(effort: Effort) -> (usize, usize) {
    match effort {
        Effort::Quick => (3, 1),
        Effort::Full => (100, 20),
    }
}

pub(super) fn report(effort: Effort, seed: u64, progress: &dyn Progress) -> Report {
    let (n_main, n_wide) = n_seeds(effort);
    let mut luck = Rng::new(seed);
    let seeds: Vec<u64> = (0..n_main).map(|_| luck.draw()).collect();
    let trials = Trials::run(&Cell::all(&LOADS), &seeds, &contestants(), Nature::default(), progress);
    let wide = &seeds[..n_wide];
    Report {
        name: "adaptive",
        paper: "Kim, Choi, Kim: Adaptive application-aware job scheduling optimization strategy in \
                heterogeneous infrastructures. Cluster Computing 19, 2016 (paper 003)",
        effort,
        parts: vec![
            example::part(),
            gains::part(&trials, n_main),
            remarks::part(&trials, seeds[0]),
            course::part(seeds[0]),
            beyond::mixtures(&trials),
            beyond::conditions(wide, progress),
        ],
    }
}

#[cfg(test)]
mod tests;
