//! Log lines of failed attempts. Each job has a few in a minute, and then a line that says how many more there were: a
//! sweep of which every task fails would fill the disk otherwise.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use scheduler::ids::JobId;

/// Lines of a job in a period.
const N_LINES_MAX: u64 = 20;
/// How long lines are counted.
const PERIOD: Duration = Duration::from_secs(60);

/// Counts failures of jobs in a period.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    began: Option<Instant>,
    n_failures: HashMap<JobId, u64>,
}

impl FailureLog {
    /// Counts a failure of a job; says whether it has a line of its own.
    pub(crate) fn has_line(&mut self, job: JobId, now: Instant) -> bool {
        self.began.get_or_insert(now);
        let n = self.n_failures.entry(job).or_default();
        *n += 1;
        *n <= N_LINES_MAX
    }

    /// When a period is over: the jobs with failures that had no line, and how many each.
    pub(crate) fn left_out(&mut self, now: Instant) -> Vec<(JobId, u64)> {
        if self.began.is_none_or(|began| now.duration_since(began) < PERIOD) {
            return Vec::new();
        }
        self.began = None;
        let left_out = self.n_failures.drain().filter(|(_, n)| *n > N_LINES_MAX);
        let mut left_out: Vec<_> = left_out.map(|(job, n)| (job, n - N_LINES_MAX)).collect();
        left_out.sort_unstable();
        left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_some_lines_in_a_minute_and_the_rest_are_counted() {
        let (mut log, begin) = (FailureLog::default(), Instant::now());
        let lines =
            |log: &mut FailureLog, job, n, now| (0..n).filter(|_| log.has_line(JobId(job), now)).count();
        assert_eq!(lines(&mut log, 1, 1000, begin), 20);
        assert_eq!(lines(&mut log, 2, 3, begin), 3, "another job has its own");
        assert_eq!(log.left_out(begin + PERIOD / 2), []);
        assert_eq!(log.left_out(begin + PERIOD), [(JobId(1), 980)]);
        assert_eq!(log.left_out(begin + 3 * PERIOD), []);
        assert_eq!(lines(&mut log, 1, 1000, begin + 3 * PERIOD), 20, "in the next minute again");
    }
}
