//! Lublin and Feitelson, "The Workload on Parallel Supercomputers: Modeling the Characteristics of Rigid
//! Jobs" (JPDC 63, 2003), one type of job, with the parameters of that paper.

use scheduler::rng::Rng;

use super::super::workload::{Job, Workload};
use crate::draw;

const SERIAL: f64 = 0.244;
const POWER_OF_TWO: f64 = 0.576;
/// Of the logarithm of sizes: the least, the distance of the middle below the largest, the part below the
/// middle.
const SIZE_LEAST: f64 = 0.8;
const SIZE_MIDDLE_BELOW: f64 = 2.5;
const SIZE_BELOW_MIDDLE: f64 = 0.86;

/// Shape and scale of the logarithm of runtimes, short ones and long ones.
const SHORT: (f64, f64) = (4.2, 0.94);
const LONG: (f64, f64) = (312.0, 0.03);
/// The part of short jobs falls with size.
const SHORT_SLOPE: f64 = -0.0054;
const SHORT_AT_ZERO: f64 = 0.78;
const LOG_RUNTIME_MAX: f64 = 12.0;

/// Shape and scale of the logarithm of gaps between arrivals.
const GAP: (f64, f64) = (10.2303, 0.4871);
const LOG_GAP_MAX: f64 = 13.0;
/// Shape and scale of arrivals over the day, in buckets after midnight, from the first bucket to a day later.
const DAY: (f64, f64) = (8.1737, 3.9631);
const BUCKETS_A_DAY: usize = 48;
const FIRST_BUCKET: usize = 22;
const BUCKET_SECONDS: f64 = 1800.0;

pub(super) fn generate(n_jobs: usize, n_cores: u64, seed: u64) -> Workload {
    let mut luck = Rng::of(seed, &[1]);
    let mut day = Day::new();
    let jobs = (0..n_jobs).map(|_| {
        let cores = size(n_cores, &mut luck);
        let runtime = runtime(cores, &mut luck);
        Job {
            submitted_at: day.after(log_gamma(GAP, LOG_GAP_MAX, &mut luck)),
            cores,
            runtime,
            estimate: runtime,
        }
    });
    Workload::new(jobs.collect())
}

fn size(n_cores: u64, luck: &mut Rng) -> u64 {
    let kind = draw::uniform(luck);
    if kind < SERIAL || n_cores == 1 {
        return 1;
    }
    let most = (n_cores as f64).log2();
    let middle = (most - SIZE_MIDDLE_BELOW).max(SIZE_LEAST);
    let (low, high) =
        if draw::uniform(luck) < SIZE_BELOW_MIDDLE { (SIZE_LEAST, middle) } else { (middle, most) };
    let log_size = low + (high - low) * draw::uniform(luck);
    let log_size = if kind < SERIAL + POWER_OF_TWO { log_size.round() } else { log_size };
    (log_size.exp2().round() as u64).clamp(1, n_cores)
}

/// Draws a runtime in whole seconds, at least one.
fn runtime(cores: u64, luck: &mut Rng) -> f64 {
    let share = (SHORT_SLOPE * cores as f64 + SHORT_AT_ZERO).clamp(0.0, 1.0);
    let kind = if draw::uniform(luck) < share { SHORT } else { LONG };
    log_gamma(kind, LOG_RUNTIME_MAX, luck).floor().max(1.0)
}

/// Draws a value whose logarithm has this gamma distribution and is at most `most`.
fn log_gamma((shape, scale): (f64, f64), most: f64, luck: &mut Rng) -> f64 {
    loop {
        let logarithm = scale * draw::gamma(shape, luck);
        if logarithm <= most {
            return logarithm.exp();
        }
    }
}

/// Stretches time at night and compresses it by day; a whole day keeps its length.
struct Day {
    weights: [f64; BUCKETS_A_DAY],
    /// Buckets since the first day's midnight, and the used part of the weight of the present one.
    bucket: usize,
    used: f64,
}

impl Day {
    fn new() -> Day {
        let (shape, scale) = DAY;
        let density = |bucket: usize| {
            let x = (bucket as f64 + 0.5) / scale;
            x.powf(shape - 1.0) * (-x).exp()
        };
        let mut weights = [0.0; BUCKETS_A_DAY];
        for bucket in FIRST_BUCKET..FIRST_BUCKET + BUCKETS_A_DAY {
            weights[bucket % BUCKETS_A_DAY] = density(bucket);
        }
        let mean = weights.iter().sum::<f64>() / BUCKETS_A_DAY as f64;
        Day { weights: weights.map(|weight| weight / mean), bucket: FIRST_BUCKET, used: 0.0 }
    }

    /// Returns the time, in whole seconds, after a gap of `gap` seconds of uniform time.
    fn after(&mut self, gap: f64) -> f64 {
        self.used += gap / BUCKET_SECONDS;
        while self.used >= self.weight() {
            self.used -= self.weight();
            self.bucket += 1;
        }
        (BUCKET_SECONDS * (self.bucket as f64 + self.used / self.weight())).floor()
    }

    fn weight(&self) -> f64 {
        self.weights[self.bucket % BUCKETS_A_DAY]
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::workload::Job;

    /// The expected values are statistics of a log that the authors' own generator made: 10,000 jobs on 256
    /// nodes.
    #[test]
    fn jobs_are_like_those_of_the_authors_generator() {
        let workload = super::generate(40_000, 256, 1);
        let jobs = workload.jobs();
        let mean = |value: &dyn Fn(&Job) -> f64| jobs.iter().map(value).sum::<f64>() / jobs.len() as f64;
        let near = |found: f64, expected: f64, tolerance: f64| {
            assert!((found - expected).abs() < tolerance, "{found}, not {expected}");
        };
        near(mean(&|job| f64::from(job.cores == 1)), 0.249, 0.01);
        near(mean(&|job| f64::from(job.cores > 1 && job.cores.is_power_of_two())), 0.612, 0.01);
        near(mean(&|job| job.cores as f64), 22.10, 0.7);
        let logarithm = mean(&|job| job.runtime.ln());
        near(logarithm, 5.683, 0.06);
        near(mean(&|job| (job.runtime.ln() - logarithm).powi(2)).sqrt(), 3.021, 0.05);
        let duration = jobs[jobs.len() - 1].submitted_at - jobs[0].submitted_at;
        // The mean of gaps is 796; their heavy tail makes it vary.
        near(duration / jobs.len() as f64, 770.7, 80.0);
        // More jobs arrive in the early afternoon than at night.
        let by_hour =
            |hour: u64| jobs.iter().filter(|job| job.submitted_at as u64 / 3600 % 24 == hour).count();
        assert!(by_hour(14) > 5 * by_hour(4), "{} and {}", by_hour(14), by_hour(4));
    }
}
