//! Tasks ended by a signal that the pilot may be about to get too: batch systems signal all processes of a
//! job at once, when its walltime ends or somebody cancels it. That is no failure of the program.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::spawn::{Exit, Outcome};

/// A pilot hears of such a signal within this time after its tasks.
const WINDOW: Duration = Duration::from_secs(3);

/// Ends of tasks that wait until it is known whose signal it was, and those that came after them.
#[derive(Default)]
pub(super) struct Suspects {
    exits: VecDeque<Exit>,
    since: Option<Instant>,
}

impl Suspects {
    /// Keeps the exit back if it is one of them or comes after one; else gives it again.
    pub(super) fn pass(&mut self, exit: Exit) -> Option<Exit> {
        if self.since.is_none() && !may_be_the_platforms(&exit.outcome) {
            return Some(exit);
        }
        self.since.get_or_insert_with(Instant::now);
        self.exits.push_back(exit);
        None
    }

    /// When they are believed to have ended by themselves.
    pub(super) fn until(&self) -> Option<Instant> {
        self.since.map(|since| since + WINDOW)
    }

    /// All of them: it is known now.
    pub(super) fn take(&mut self) -> VecDeque<Exit> {
        self.since = None;
        std::mem::take(&mut self.exits)
    }
}

/// Whether a process may have ended so because its batch job is to.
pub(super) fn may_be_the_platforms(outcome: &Outcome) -> bool {
    const SIGNALS: [i32; 6] =
        [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGXCPU];
    match outcome {
        Outcome::Signal(signal) => SIGNALS.contains(signal),
        // A shell's word for a child that a signal ended.
        Outcome::Code(code) => SIGNALS.contains(&(code - 128)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(token: u64, outcome: Outcome) -> Exit {
        Exit::new(token, outcome, Instant::now())
    }

    #[test]
    fn order_is_kept_behind_one_that_waits() {
        let mut suspects = Suspects::default();
        assert!(suspects.pass(exit(1, Outcome::Signal(libc::SIGSEGV))).is_some());
        assert!(suspects.pass(exit(2, Outcome::Code(128 + libc::SIGTERM))).is_none());
        assert!(suspects.until().is_some());
        assert!(suspects.pass(exit(3, Outcome::Code(0))).is_none());
        assert_eq!(suspects.take().iter().map(|exit| exit.token).collect::<Vec<_>>(), [2, 3]);
        assert!(suspects.until().is_none() && suspects.pass(exit(4, Outcome::Code(0))).is_some());
    }
}
