//! The conditions under which a run of a scenario is stopped: nothing gets done any more, or it lasts too
//! long.

use std::{collections::VecDeque, fmt};

use scheduler::{
    explain::Reason,
    time::{Span, Time},
};

/// The longest duration of a scenario: ten years.
pub const LASTS_AT_MOST: Span = Span::from_secs(3650 * 86_400);

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HowFar {
    /// Simulated time since the beginning.
    pub at: Span,
    /// Number of ended tasks.
    pub n_ended: u64,
    /// Number of all tasks.
    pub n_tasks: u64,
}

/// The reason why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Tasks wait, and none has ended for longer than this.
    NothingEnds(Span),
    /// The run has lasted this long.
    TooLong(Span),
    /// No event will happen any more.
    NothingLeft,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = |span: &Span| span.0 / Span::from_secs(86_400).0;
        match self {
            Cause::NothingEnds(limit) => write!(f, "tasks wait and none has ended for {limit}"),
            Cause::TooLong(limit) => write!(f, "a scenario lasts {} days at most", days(limit)),
            Cause::NothingLeft => write!(f, "nothing is left to happen"),
        }
    }
}

/// A run that was stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped {
    /// The reason.
    pub cause: Cause,
    /// The progress until then.
    pub how_far: HowFar,
    /// The first jobs that had not ended; none if the manager was away or had accepted none.
    pub waiting: Vec<WaitingJob>,
    /// The first platforms, with the reasons of `explain`.
    pub platforms: Vec<(String, Vec<Reason>)>,
}

/// A job that had not ended, with the reasons of `explain`.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingJob {
    /// Its user.
    pub user: String,
    /// Its application.
    pub application: String,
    /// Number of tasks that had not ended.
    pub n_open: u64,
    /// The reasons, decisive ones first.
    pub reasons: Vec<Reason>,
}

/// The time since when tasks have waited and none has ended.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Span,
    /// The future arrivals with their numbers of tasks, the next one first.
    coming: VecDeque<(Time, u64)>,
    n_come: u64,
    n_ended: u64,
    since: Time,
}

impl Patience {
    /// Starts the observation. `jobs`: arrivals with their numbers of tasks.
    pub(crate) fn new(limit: Span, jobs: impl Iterator<Item = (Time, u64)>) -> Patience {
        let mut coming: Vec<(Time, u64)> = jobs.collect();
        coming.sort_unstable();
        Patience { limit, coming: coming.into(), n_come: 0, n_ended: 0, since: Time::default() }
    }

    /// Notes the time and the number of ended tasks. Returns the time and the reason of a stop, if it is due.
    /// Amortized O(1).
    pub(super) fn run_out(&mut self, now: Time, n_ended: u64) -> Option<(Time, Cause)> {
        // Without open tasks, nothing waits.
        if n_ended > self.n_ended || self.n_come <= n_ended {
            (self.n_ended, self.since) = (n_ended, now);
        }
        while let Some((_, n_tasks)) = self.coming.front().filter(|(at, _)| *at <= now) {
            self.n_come += n_tasks;
            self.coming.pop_front();
        }
        (now.since(self.since) > self.limit)
            .then_some((self.since + self.limit, Cause::NothingEnds(self.limit)))
    }
}

#[cfg(test)]
mod tests {
    use scheduler::time::{Span, Time};

    use super::{Cause, Patience};

    #[test]
    fn only_waiting_without_an_end_is_counted() {
        let limit = Span(100);
        let mut patience = Patience::new(limit, [(Time(5_000), 1), (Time(1_000), 2)].into_iter());
        // Nothing waits before the first job arrives.
        for (now, n_ended, is_over) in [
            (10, 0, false),
            (1_000, 0, false),
            (1_100, 0, false),
            (1_101, 1, false),
            (1_201, 1, false),
            (1_202, 1, true),
            (1_203, 2, false),
            (4_999, 2, false),
            (5_000, 2, false),
            (5_101, 2, true),
        ] {
            let cause = patience.run_out(Time(now), n_ended).map(|(_, cause)| cause);
            assert_eq!(cause, is_over.then_some(Cause::NothingEnds(limit)), "at {now}");
        }
    }
}
