//! Jann, Pattnaik, Franke, Wang, Skovira and Riordan, "Modeling of Workload in MPPs" (JSSPP 1997): sizes are
//! divided into ranges by powers of two, and each range has its own hyper-Erlang distributions of runtimes
//! and of gaps between arrivals, with the first three moments of a log.
//!
//! The paper's table of parameters, for 322 nodes of the CTC SP2, was not available. The method is applied to
//! moments that we took from another log: NASA Ames iPSC/860, October to December 1993, 18,066 jobs of the
//! cleaned version in the Parallel Workloads Archive (Bill Nitzberg, Dror Feitelson).

use scheduler::rng::Rng;

use super::super::workload::{Job, Workload};
use super::hyper_erlang::HyperErlang;

/// A range: its largest size, which all of its jobs have, and the first three moments of runtimes and of gaps
/// between arrivals, in seconds.
struct Range {
    cores: u64,
    runtime: [f64; 3],
    gap: [f64; 3],
}

const RANGES: [Range; 8] = [
    Range { cores: 1, runtime: [1.26142e2, 5.03870e5, 6.53541e9], gap: [1.61170e3, 9.36436e7, 3.71691e13] },
    Range { cores: 2, runtime: [5.83340e2, 4.97206e6, 1.09377e11], gap: [4.50944e3, 4.94809e8, 1.47553e14] },
    Range { cores: 4, runtime: [8.67851e2, 1.39779e7, 4.76996e11], gap: [2.96003e3, 2.66939e8, 8.58934e13] },
    Range { cores: 8, runtime: [5.99326e2, 4.80710e6, 8.36664e10], gap: [4.41079e3, 5.11260e8, 1.49943e14] },
    Range { cores: 16, runtime: [5.15963e2, 3.53442e6, 5.41821e10], gap: [4.41875e3, 4.64816e8, 1.59016e14] },
    Range { cores: 32, runtime: [1.22750e3, 1.18076e7, 2.86230e11], gap: [2.18745e3, 1.48878e8, 5.19349e13] },
    Range { cores: 64, runtime: [2.12943e3, 2.04892e7, 3.37289e11], gap: [6.66536e3, 4.22891e8, 1.27940e14] },
    Range {
        cores: 128,
        runtime: [2.68643e3, 2.45380e7, 2.42136e11],
        gap: [2.01750e4, 2.71763e9, 1.29518e15],
    },
];

pub(super) fn generate(n_jobs: usize, n_cores: u64, seed: u64) -> Workload {
    let mut streams: Vec<Stream> = RANGES
        .iter()
        .filter(|range| range.cores <= n_cores)
        .filter_map(|range| Stream::new(range, seed))
        .collect();
    let next = |streams: &mut Vec<Stream>| {
        let first = streams.iter_mut().min_by(|a, b| a.next_at.total_cmp(&b.next_at))?;
        Some(first.job())
    };
    Workload::new((0..n_jobs).map_while(|_| next(&mut streams)).collect())
}

/// The stream of jobs of one range.
struct Stream {
    cores: u64,
    runtime: HyperErlang,
    gap: HyperErlang,
    next_at: f64,
    luck: Rng,
}

impl Stream {
    /// Makes the stream. `None`: there is no such distribution; this does not happen for the ranges above.
    fn new(range: &Range, seed: u64) -> Option<Stream> {
        let (runtime, gap) =
            (HyperErlang::with_moments(range.runtime)?, HyperErlang::with_moments(range.gap)?);
        let mut luck = Rng::of(seed, &[3, range.cores]);
        Some(Stream { cores: range.cores, runtime, gap, next_at: gap.draw(&mut luck), luck })
    }

    fn job(&mut self) -> Job {
        let submitted_at = self.next_at;
        self.next_at += self.gap.draw(&mut self.luck);
        let runtime = self.runtime.draw(&mut self.luck).max(f64::MIN_POSITIVE);
        Job { submitted_at, cores: self.cores, runtime, estimate: runtime }
    }
}

#[cfg(test)]
mod tests {
    use super::{RANGES, Stream, generate};

    #[test]
    fn every_range_has_its_distributions() {
        assert!(RANGES.iter().all(|range| Stream::new(range, 1).is_some()));
    }

    #[test]
    fn sizes_are_as_frequent_as_their_gaps_say() {
        let workload = generate(60_000, 128, 1);
        let rate: f64 = RANGES.iter().map(|range| 1.0 / range.gap[0]).sum();
        for range in &RANGES {
            let jobs = workload.jobs().iter().filter(|job| job.cores == range.cores);
            let share = jobs.clone().count() as f64 / 60_000.0;
            let expected = 1.0 / range.gap[0] / rate;
            assert!((share / expected - 1.0).abs() < 0.15, "{} of {}, not {expected}", share, range.cores);
            let mean = jobs.clone().map(|job| job.runtime).sum::<f64>() / jobs.count() as f64;
            assert!((mean / range.runtime[0] - 1.0).abs() < 0.15, "{mean} of {}", range.cores);
        }
        assert!(generate(500, 16, 1).jobs().iter().all(|job| job.cores <= 16));
    }
}
