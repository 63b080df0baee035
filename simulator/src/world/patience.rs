//! When a run of a scenario is given up: nothing gets done any more, or it lasts too long.

use std::{collections::VecDeque, fmt};

use scheduler::{
    explain::Reason,
    time::{Span, Time},
};

/// Ten years: no scenario lasts longer.
pub const LASTS_AT_MOST: Span = Span::from_secs(3650 * 86_400);

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HowFar {
    /// Simulated time since the beginning.
    pub at: Span,
    /// Tasks that have ended.
    pub n_ended: u64,
    /// All tasks.
    pub n_tasks: u64,
}

/// Why a run was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Tasks wait, and none has ended for longer than this.
    NothingEnds(Span),
    /// It is over when it has lasted so long.
    TooLong(Span),
    /// Nobody will do anything any more.
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

/// A run that was given up.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped {
    /// Why.
    pub cause: Cause,
    /// How far it was.
    pub how_far: HowFar,
    /// The first jobs that were not over; none when the manager was away or had taken none.
    pub waiting: Vec<WaitingJob>,
    /// The first platforms: what `explain` tells of them.
    pub platforms: Vec<(String, Vec<Reason>)>,
}

/// A job that was not over, as `explain` tells of it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingJob {
    /// Its user.
    pub user: String,
    /// Its application.
    pub application: String,
    /// Tasks that had not ended.
    pub n_open: u64,
    /// The decisive ones first.
    pub reasons: Vec<Reason>,
}

/// Since when tasks have waited and none has ended.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Span,
    /// When tasks will come and how many, the next ones first.
    coming: VecDeque<(Time, u64)>,
    n_come: u64,
    n_ended: u64,
    since: Time,
}

impl Patience {
    /// `jobs`: when they come, and how many tasks they have.
    pub(crate) fn new(limit: Span, jobs: impl Iterator<Item = (Time, u64)>) -> Patience {
        let mut coming: Vec<(Time, u64)> = jobs.collect();
        coming.sort_unstable();
        Patience { limit, coming: coming.into(), n_come: 0, n_ended: 0, since: Time::default() }
    }

    /// It is now, and so many tasks have ended: since when that is to be given up, if it is. O(1) on the mean.
    pub(super) fn run_out(&mut self, now: Time, n_ended: u64) -> Option<(Time, Cause)> {
        // Who waits for nothing does not wait.
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
        // Nobody waits before the first job comes.
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
