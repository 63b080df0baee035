//! The measurements of an application on a platform.

use crate::{
    engine::record::{FailedAttempt, Totals},
    results::Blame,
    time::Span,
};

/// Number of attempts that count as much as all before them: older ones count less and less.
const MEMORY: f64 = 500.0;

/// The same for the part of attempts that fail, so that a broken or repaired platform is noticed soon.
const LOSS_MEMORY: f64 = 20.0;

/// Means of one application on one platform in which recent attempts count more.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Statistics {
    /// Number of all successful attempts.
    pub n_done: u64,
    /// Number of all attempts that failed because of the program.
    pub n_failed: u64,
    /// The largest peak memory of a successful attempt, in bytes.
    pub memory_bytes_max: u64,
    /// Number of successful attempts in the following sums.
    weight: f64,
    wall_s: f64,
    wall_s_squared: f64,
    cpu_s: f64,
    core_s: f64,
    /// The part of `core_s` in which others had the cores while the tasks wanted to compute.
    starved_s: f64,
    /// Number of tasks with known use of other resources than cores, and sums of it; recent ones count more.
    efforts: f64,
    io_bytes: f64,
    prepared_s: f64,
    /// Number of attempts, and of failed ones; recent ones count more.
    attempts: f64,
    failures: f64,
    /// The same, including attempts that failed because of the node or the walltime, or were lost with their
    /// pilot; recent ones count even more.
    tries: f64,
    losses: f64,
    /// Number of successful attempts since the last such failure.
    n_since_loss: f64,
}

impl Statistics {
    /// Takes in a report on tasks that need `cores` cores each. Failures of the node and the platform say
    /// nothing about the application.
    pub fn learn(&mut self, cores: u32, totals: &Totals, failures: &[FailedAttempt]) {
        let is_its_own = |failure: &&FailedAttempt| failure.kind.blame() == Blame::Program;
        let n_failed = failures.iter().filter(is_its_own).count() as u64;
        self.n_done = self.n_done.saturating_add(totals.n);
        self.n_failed = self.n_failed.saturating_add(n_failed);
        self.memory_bytes_max = self.memory_bytes_max.max(totals.memory_bytes_max);
        let is_loss = |failure: &&FailedAttempt| {
            matches!(failure.kind.blame(), Blame::Program | Blame::Node | Blame::Walltime)
        };
        let n_lost = failures.iter().filter(is_loss).count() as f64;
        self.forget();
        let wall_s = totals.wall_us as f64 / 1e6;
        self.weight += totals.n as f64;
        self.wall_s += wall_s;
        self.wall_s_squared += totals.wall_squared as f64 / 1e6;
        self.cpu_s += totals.cpu_us as f64 / 1e6;
        self.core_s += wall_s * f64::from(cores);
        self.attempts += (totals.n + n_failed) as f64;
        self.failures += n_failed as f64;
        self.tries += totals.n as f64 + n_lost;
        self.losses += n_lost;
        self.n_since_loss = if n_lost > 0.0 { 0.0 } else { self.n_since_loss + totals.n as f64 };
    }

    /// Counts `n` attempts that ended with their pilots, which says something about the platform; negative:
    /// takes them back.
    pub fn learn_lost(&mut self, n: f64) {
        self.forget();
        self.tries = (self.tries + n).max(0.0);
        self.losses = (self.losses + n).clamp(0.0, self.tries);
        if n > 0.0 {
            self.n_since_loss = 0.0;
        }
    }

    /// Takes in the resources that tasks used beside cores.
    pub fn learn_effort(&mut self, n: u64, io_bytes: u64, prepared_us: u64) {
        let kept = MEMORY / self.efforts.max(MEMORY);
        for (sum, more) in [
            (&mut self.efforts, n as f64),
            (&mut self.io_bytes, io_bytes as f64),
            (&mut self.prepared_s, prepared_us as f64 / 1e6),
        ] {
            *sum = *sum * kept + more;
        }
    }

    /// Adds time in which tasks wanted to compute and could not.
    pub fn learn_starved(&mut self, starved: Span) {
        self.starved_s += starved.as_secs_f64();
    }

    /// Returns the bytes per second that a task reads from and writes to disks; `None`: no pilot has reported
    /// it.
    pub fn io_rate(&self) -> Option<f64> {
        let wall_s = self.wall_s / self.weight;
        (self.efforts > 0.0 && wall_s > 0.0).then(|| self.io_bytes / self.efforts / wall_s)
    }

    /// Returns the time until a task's program has started; `None`: no pilot has reported it.
    pub fn prepared(&self) -> Option<Span> {
        (self.efforts > 0.0).then(|| Span::from_secs_f64(self.prepared_s / self.efforts))
    }

    /// Reduces the weight of earlier attempts to that of [`MEMORY`] attempts.
    fn forget(&mut self) {
        let kept = MEMORY / self.weight.max(MEMORY);
        for sum in [
            &mut self.weight,
            &mut self.wall_s,
            &mut self.wall_s_squared,
            &mut self.cpu_s,
            &mut self.core_s,
            &mut self.starved_s,
        ] {
            *sum *= kept;
        }
        let kept = MEMORY / self.attempts.max(MEMORY);
        (self.attempts, self.failures) = (self.attempts * kept, self.failures * kept);
        let kept = LOSS_MEMORY / self.tries.max(LOSS_MEMORY);
        (self.tries, self.losses) = (self.tries * kept, self.losses * kept);
    }

    /// Returns the number of successful attempts in the means, weighted by age.
    pub fn n_counted(&self) -> f64 {
        self.weight
    }

    /// Returns the mean runtime of a successful attempt; `None` before the first.
    pub fn mean(&self) -> Option<Span> {
        (self.weight > 0.0).then(|| Span::from_secs_f64(self.wall_s / self.weight))
    }

    /// Returns the standard deviation of that runtime; `None` before the first.
    pub fn deviation(&self) -> Option<Span> {
        let mean = self.wall_s / self.weight;
        let variance = (self.wall_s_squared / self.weight - mean * mean).max(0.0);
        (self.weight > 0.0).then(|| Span::from_secs_f64(variance.sqrt()))
    }

    /// Returns the mean number of cores of a successful attempt; `None` before the first.
    pub fn cores(&self) -> Option<f64> {
        (self.wall_s > 0.0).then(|| self.core_s / self.wall_s)
    }

    /// Returns the part of the time for which a successful attempt keeps its cores busy, 0 to about 1. Near 0
    /// it waits for something else than a CPU that others have. `None` before the first.
    pub fn cpu_share(&self) -> Option<f64> {
        // The reported time may include failed tasks, and thus exceed that of successes.
        let core_s = (self.core_s - self.starved_s).max(self.cpu_s.min(self.core_s));
        (core_s > 0.0).then(|| self.cpu_s / core_s)
    }

    /// Returns the part of attempts that fail because of the program, 0 to 1; `None` before the first.
    pub fn error_rate(&self) -> Option<f64> {
        (self.attempts > 0.0).then(|| self.failures / self.attempts)
    }

    /// Returns the part of the last attempts that fail for any reason, 0 to 1; `None` before the first. After
    /// n successes in a row it is at most 3/n (the rule of three: with a higher rate, so many would succeed
    /// less than once in twenty times), so that a repaired platform is noticed soon.
    pub fn loss_rate(&self) -> Option<f64> {
        let most = if self.n_since_loss > 0.0 { 3.0 / self.n_since_loss } else { 1.0 };
        (self.tries > 0.0).then(|| (self.losses / self.tries).min(most))
    }

    /// Returns the number of successful attempts since one last failed for any reason.
    pub fn n_since_loss(&self) -> u64 {
        self.n_since_loss as u64
    }

    /// Returns whether little is known yet, so that each report may change much.
    pub fn is_young(&self) -> bool {
        self.tries < LOSS_MEMORY
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{FailedAttempt, Statistics, Totals};
    use crate::{
        engine::record::Verdict,
        results::{FailureKind, Successes, Usage},
        time::Span,
    };

    /// Returns totals of successes with these runtimes in seconds, of which the CPU worked half.
    fn totals(walls_s: &[f64]) -> Totals {
        let attempt = |(n, wall_s): (usize, &f64)| {
            let wall_us = (wall_s * 1e6) as u64;
            let usage =
                Usage { wall_us, cpu_us: wall_us / 2, memory_bytes: n as u64 + 1, ..Usage::default() };
            (n as u64, 0, usage)
        };
        Totals::of(&Successes::from_attempts(walls_s.iter().enumerate().map(attempt).collect()))
    }

    fn failed(kind: FailureKind) -> FailedAttempt {
        FailedAttempt { index: 0, attempt: 1, kind, usage: Usage::default(), verdict: Verdict::Final }
    }

    #[test]
    fn it_is_what_the_attempts_were() {
        let mut known = Statistics::default();
        assert_eq!((known.mean(), known.deviation(), known.error_rate()), (None, None, None));
        let failures = [failed(FailureKind::Exit { code: 1 }), failed(FailureKind::Walltime)];
        known.learn(2, &totals(&[1.0, 2.0, 3.0]), &failures);
        assert_eq!(known.mean(), Some(Span::from_secs(2)));
        assert_eq!(known.deviation().map(|span| span.0 / 1000), Some(816));
        assert_eq!(known.cpu_share(), Some(0.25), "half of one of two cores");
        assert_eq!(known.error_rate(), Some(0.25), "the platform's failures are not the program's");
        assert_eq!((known.n_done, known.n_failed, known.memory_bytes_max), (3, 1, 3));
    }

    #[test]
    fn what_tasks_need_beside_cores_is_known_once_they_tell() {
        let mut known = Statistics::default();
        known.learn(1, &totals(&[2.0; 10]), &[]);
        assert_eq!((known.io_rate(), known.prepared()), (None, None));
        known.learn_effort(5, 50_000_000, 10_000);
        assert_eq!((known.io_rate(), known.prepared()), (Some(5e6), Some(Span::from_millis(2))));
        (0..100).for_each(|_| known.learn_effort(100, 0, 0));
        assert!(known.io_rate().unwrap() < 2.0, "{known:?}");
    }

    #[test]
    fn successes_in_a_row_show_that_a_platform_is_mended() {
        let mut known = Statistics::default();
        known.learn(1, &totals(&[]), &vec![failed(FailureKind::Exit { code: 1 }); 100]);
        assert_eq!(known.loss_rate(), Some(1.0));
        known.learn(1, &totals(&[1.0; 4]), &[]);
        assert!(known.loss_rate().is_some_and(|rate| rate > 0.7));
        known.learn(1, &totals(&[1.0; 9]), &[]);
        assert_eq!((known.loss_rate(), known.n_since_loss()), (Some(3.0 / 13.0), 13));
        known.learn(1, &totals(&[]), &[failed(FailureKind::Exit { code: 1 })]);
        assert_eq!(known.n_since_loss(), 0);
    }

    #[test]
    fn time_for_which_others_had_the_cpus_is_not_idle() {
        let mut known = Statistics::default();
        known.learn(1, &Totals { n: 1, wall_us: 2_800_000, cpu_us: 800_000, ..Totals::default() }, &[]);
        assert_eq!(known.cpu_share().map(|share| (share * 100.0).round()), Some(29.0));
        known.learn_starved(Span::from_millis(1_950));
        assert_eq!(known.cpu_share().map(|share| (share * 100.0).round()), Some(94.0));
        known.learn_starved(Span::from_secs(9));
        assert_eq!(known.cpu_share(), Some(1.0), "never more than all of it");
    }

    #[test]
    fn what_is_new_outweighs_what_was_long_ago() {
        let mut known = Statistics::default();
        (0..100).for_each(|_| known.learn(1, &totals(&[1.0; 100]), &[]));
        known.learn(1, &totals(&[3.0; 500]), &[]);
        assert_eq!(known.mean(), Some(Span::from_secs(2)), "the last 500 count as much as all before");
        let failures = vec![failed(FailureKind::Exit { code: 1 }); 500];
        known.learn(1, &totals(&[]), &failures);
        assert_eq!((known.error_rate(), known.mean()), (Some(0.5), Some(Span::from_secs(2))));
        assert_eq!(known.n_done, 10_500);
    }

    proptest! {
        #[test]
        fn means_are_between_the_least_and_the_most(
            reports in prop::collection::vec(prop::collection::vec(0.001..1e4_f64, 0..40), 1..40),
        ) {
            let mut known = Statistics::default();
            reports.iter().for_each(|walls_s| known.learn(1, &totals(walls_s), &[]));
            let all = || reports.iter().flatten().copied();
            prop_assert_eq!(known.mean().is_some(), all().next().is_some());
            if let Some(mean) = known.mean() {
                let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
                let mean = mean.as_secs_f64();
                prop_assert!(least - 1e-5 <= mean && mean <= most + 1e-5, "{least} {mean} {most}");
                prop_assert!(known.deviation().is_some_and(|span| span.as_secs_f64() <= most - least + 0.01));
            }
        }
    }
}
