//! Feitelson, "Packing Schemes for Gang Scheduling" (JSSPP 1996): small sizes and powers of two are frequent,
//! larger jobs run somewhat longer, and jobs are repeated.
//!
//! Published and used here: sizes harmonic of order 1.5 with more weight on small ones and on powers of two;
//! hyperexponential runtimes, with a part of short ones that falls with size; repetitions. The hand-set
//! weights, and the numbers below marked as chosen, could not be confirmed from the sources available to us.

use scheduler::rng::Rng;

use super::super::workload::{Job, Workload};
use crate::draw;

const SIZE_ORDER: f64 = 1.5;
/// Factor of the frequency of powers of two, relative to the harmonic distribution: 1, 2, 4, 8 and so on.
/// Chosen.
const POWER_OF_TWO: f64 = 5.0;
/// Mean runtimes, in an arbitrary unit.
const SHORT: f64 = 1.0;
const LONG: f64 = 7.0;
/// The part of short jobs is this, minus a part that grows with size. As commonly cited.
const SHORT_SHARE: f64 = 0.95;
const SHORT_SHARE_FALL: f64 = 0.2;
/// Runs of one job: harmonic, up to a chosen number.
const RUNS_ORDER: f64 = 2.5;
const RUNS_MAX: usize = 1000;
/// The part of the processors that new jobs and their repetitions keep busy, by the mean of runtimes. Chosen.
const BUSY: f64 = 0.7;

pub(super) fn generate(n_jobs: usize, n_cores: u64, seed: u64) -> Workload {
    let mut luck = Rng::of(seed, &[2]);
    let harmonic = |n: usize, order: f64| (n as f64).powf(-order);
    let size_weight =
        |n: usize| harmonic(n, SIZE_ORDER) * if n.is_power_of_two() { POWER_OF_TWO } else { 1.0 };
    let sizes: Vec<f64> = (1..=n_cores as usize).map(size_weight).collect();
    let runs: Vec<f64> = (1..=RUNS_MAX).map(|n| harmonic(n, RUNS_ORDER)).collect();
    let gap = mean_work(&sizes) * mean(&runs) / (BUSY * n_cores as f64);
    let mut jobs: Vec<Job> = Vec::new();
    let mut now = 0.0;
    // Repetitions come after later arrivals: enough jobs are drawn that the first `n_jobs` are complete.
    for _ in 0..n_jobs {
        now += gap * draw::exponential(&mut luck);
        let cores = draw::weighted(&sizes, &mut luck) as u64 + 1;
        let kind = if draw::uniform(&mut luck) < short_share(cores, n_cores) { SHORT } else { LONG };
        let runtime = kind * draw::exponential(&mut luck).max(f64::MIN_POSITIVE);
        // Each repetition is submitted when the previous run would have ended without waiting.
        for n in 0..=draw::weighted(&runs, &mut luck) {
            let submitted_at = now + n as f64 * runtime;
            jobs.push(Job { submitted_at, cores, runtime, estimate: runtime });
        }
    }
    let all = Workload::new(jobs);
    Workload::new(all.jobs()[..n_jobs].to_vec())
}

fn short_share(cores: u64, n_cores: u64) -> f64 {
    SHORT_SHARE - SHORT_SHARE_FALL * cores as f64 / n_cores as f64
}

/// Returns the mean of 1, 2, 3 … with these weights.
fn mean(weights: &[f64]) -> f64 {
    (1..).zip(weights).map(|(n, weight)| f64::from(n) * weight).sum::<f64>() / weights.iter().sum::<f64>()
}

/// Returns the mean of size times runtime.
fn mean_work(sizes: &[f64]) -> f64 {
    let work = |cores: u64| {
        let share = short_share(cores, sizes.len() as u64);
        cores as f64 * (share * SHORT + (1.0 - share) * LONG)
    };
    let sum: f64 = (1..).zip(sizes).map(|(cores, weight)| weight * work(cores)).sum();
    sum / sizes.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_runtimes_and_repetitions_are_as_described() {
        let workload = super::generate(40_000, 128, 1);
        let jobs = workload.jobs();
        let share = |n: usize| n as f64 / jobs.len() as f64;
        let powers = jobs.iter().filter(|job| job.cores.is_power_of_two()).count();
        assert!(share(powers) > 0.8, "{}", share(powers));
        let small = jobs.iter().filter(|job| job.cores <= 8).count();
        assert!(share(small) > 0.85, "{}", share(small));
        let mean_runtime = |is_large: bool| {
            let some = jobs.iter().filter(|job| (job.cores >= 32) == is_large).map(|job| job.runtime);
            some.clone().sum::<f64>() / some.count() as f64
        };
        assert!(mean_runtime(true) > 1.2 * mean_runtime(false));
        // Harmonic of order 2.5: 1 / ζ(2.5) of the jobs run once; each runs ζ(1.5) / ζ(2.5) times on average.
        let mut distinct: Vec<(u64, u64)> =
            jobs.iter().map(|job| (job.cores, job.runtime.to_bits())).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let runs = jobs.len() as f64 / distinct.len() as f64;
        assert!((runs - 2.612 / 1.341).abs() < 0.2, "{runs}");
    }
}
