//! Ends of tasks that the platform may have caused. A batch system, a host that shuts down or a site's memory
//! killer signals all processes of a pilot, and tasks may end before the pilot gets the signal or is killed
//! itself. Such an end is no failure of the program, so it is held back for a moment. If the pilot is
//! signalled meanwhile, the platform ended the task. If the pilot is killed, it has reported nothing, and the
//! manager counts the task as lost with its pilot.
//!
//! The platform may also cause a success. If the signal ends the running step of a script, the script may go
//! on with its next step and end with success before the signal reaches the script itself. So a success
//! within a moment of the pilot's own signal proves nothing, and the success of a task that is not very short
//! is held back for a part of the task's runtime.
//!
//! The slot of a held-back task is free at once; only its result waits.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use scheduler::results::FAILURES_HELD_BACK;

use crate::spawn::{Exit, Outcome};

/// Time within which a pilot is signalled or killed after its tasks.
pub(super) const WINDOW: Duration = Duration::from_secs(3);

/// A program that catches the signal to all processes may end with any exit code, but the pilot gets the same
/// signal within this time.
const CAUGHT: Duration = Duration::from_micros(FAILURES_HELD_BACK.0);

/// A success within this time after the pilot's signal may come from a program that was cut short.
const CUT_SHORT: Duration = Duration::from_secs(1);

/// The same for a program that got the signal and did not ignore it: it may have saved its state. Hosts that
/// shut down give services this time.
const SAVING: Duration = Duration::from_secs(90);

/// Successes of shorter tasks are reported at once: there may be thousands per second.
const SHORT: Duration = Duration::from_millis(20);
/// A success is held back for this part of its task's runtime, but at least for [`SUCCESS_HELD_MIN`].
const PART_OF_TASK: u32 = 16;
const SUCCESS_HELD_MIN: Duration = Duration::from_millis(5);

/// The ends that are held back, each queue in the order of `until`: there may be thousands if every task
/// fails.
#[derive(Default)]
pub(super) struct Suspects {
    by_signal: VecDeque<Held>,
    others: VecDeque<Held>,
}

struct Held {
    exit: Exit,
    /// When the end counts as the program's own.
    until: Instant,
}

impl Suspects {
    /// Holds back an end until `until`.
    pub(super) fn hold(&mut self, exit: Exit, until: Instant) {
        let queue = if may_be_the_platforms(&exit.outcome) { &mut self.by_signal } else { &mut self.others };
        // Ends arrive nearly in the order of time, so the place is near the back of the queue.
        let at = queue.iter().rposition(|held| held.until <= until).map_or(0, |last| last + 1);
        queue.insert(at, Held { exit, until });
    }

    /// Returns whether an end by a signal is held back.
    pub(super) fn is_any_by_signal(&self) -> bool {
        !self.by_signal.is_empty()
    }

    /// Returns when the next end is due.
    pub(super) fn until(&self) -> Option<Instant> {
        [&self.by_signal, &self.others]
            .into_iter()
            .filter_map(|queue| queue.front())
            .map(|held| held.until)
            .min()
    }

    /// Takes the ends that are due: the pilot has lived on long enough.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Exit> {
        let mut due = Vec::new();
        for queue in [&mut self.by_signal, &mut self.others] {
            let n_due = queue.partition_point(|held| held.until <= now);
            due.extend(queue.drain(..n_due).map(|held| held.exit));
        }
        due
    }

    /// Takes all ends, because the pilot was signalled.
    pub(super) fn take_all(&mut self) -> Vec<Exit> {
        let Suspects { by_signal, others } = std::mem::take(self);
        by_signal.into_iter().chain(others).map(|held| held.exit).collect()
    }
}

/// Returns how long a failure is held back, if the platform may have caused it.
pub(super) fn held_for(outcome: &Outcome) -> Option<Duration> {
    match outcome {
        _ if may_be_the_platforms(outcome) => Some(WINDOW),
        Outcome::Code(_) | Outcome::Signal(_) | Outcome::BadAnswer { .. } => Some(CAUGHT),
        // The pilot itself has caused the other outcomes.
        _ => None,
    }
}

/// Returns how long the success of a task with runtime `wall` is held back.
pub(super) fn success_held_for(wall: Duration) -> Option<Duration> {
    (wall >= SHORT).then(|| (wall / PART_OF_TASK).clamp(SUCCESS_HELD_MIN, CAUGHT))
}

/// Returns whether a program that ended with success at `ended` may have been cut short by the pilot's
/// signal.
pub(super) fn is_cut_short(ended: Instant, signalled: Instant, was_signalled: bool) -> bool {
    let limit = if was_signalled { SAVING } else { CUT_SHORT };
    ended + CAUGHT >= signalled && ended <= signalled + limit
}

/// Returns whether the platform may have caused this outcome. SIGKILL is among the signals, because tasks
/// that the pilot itself kills have another outcome.
pub(super) fn may_be_the_platforms(outcome: &Outcome) -> bool {
    const SIGNALS: [i32; 7] = [
        libc::SIGTERM,
        libc::SIGKILL,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGXCPU,
    ];
    ending_signal(outcome).is_some_and(|signal| SIGNALS.contains(&signal))
}

/// Returns whether SIGKILL ended the process, or the child of a shell.
pub(super) fn is_killed(outcome: &Outcome) -> bool {
    ending_signal(outcome) == Some(libc::SIGKILL)
}

/// Returns the signal that ended the process, or the child of a shell, which exits with 128 plus the signal's
/// number.
fn ending_signal(outcome: &Outcome) -> Option<i32> {
    match outcome {
        Outcome::Signal(signal) => Some(*signal),
        Outcome::Code(code) => Some(code - 128).filter(|signal| *signal > 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(token: u64, outcome: Outcome) -> Exit {
        Exit::new(token, outcome, Instant::now())
    }

    fn tokens(exits: &[Exit]) -> Vec<u64> {
        exits.iter().map(|exit| exit.token).collect()
    }

    #[test]
    fn signals_that_platforms_send_are_suspect_also_as_a_shells_code() {
        for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGXCPU] {
            assert!(may_be_the_platforms(&Outcome::Signal(signal)), "{signal}");
            assert!(may_be_the_platforms(&Outcome::Code(128 + signal)), "{signal}");
        }
        let own = [Outcome::Signal(libc::SIGSEGV), Outcome::Code(128 + libc::SIGABRT), Outcome::Code(9)];
        let ours = [Outcome::Killed, Outcome::TimeLimit, Outcome::MemoryLimit];
        assert!(own.iter().chain(&ours).all(|outcome| !may_be_the_platforms(outcome)));
        assert!(own.iter().all(|outcome| held_for(outcome) == Some(CAUGHT)));
        assert!(ours.iter().all(|outcome| held_for(outcome).is_none()));
        assert!(is_killed(&Outcome::Code(137)) && !is_killed(&Outcome::Code(143)));
    }

    #[test]
    fn successes_wait_for_a_part_of_the_time_of_their_tasks() {
        let held_for =
            |wall_ms| success_held_for(Duration::from_millis(wall_ms)).map_or(0, |held| held.as_millis());
        let expected = [(0, 0), (19, 0), (20, 5), (160, 10), (3_200, 200), (60_000, 250)];
        assert!(expected.iter().all(|(wall_ms, ms)| held_for(*wall_ms) == *ms), "{}", held_for(3_200));
    }

    #[test]
    fn a_success_near_the_pilots_signal_is_no_proof() {
        let signalled = Instant::now() + Duration::from_secs(60);
        let is_cut = |before_ms, after_ms, was_signalled| {
            let ended = signalled - Duration::from_millis(before_ms) + Duration::from_millis(after_ms);
            is_cut_short(ended, signalled, was_signalled)
        };
        assert!([(250, 0), (1, 0), (0, 1000)].iter().all(|(before, after)| is_cut(*before, *after, false)));
        assert!(!is_cut(300, 0, false) && !is_cut(0, 1100, false));
        assert!(is_cut(0, 1100, true) && is_cut(0, 90_000, true));
        assert!(!is_cut(300, 0, true) && !is_cut(0, 90_100, true));
    }

    #[test]
    fn an_end_is_the_programs_own_once_the_pilot_has_lived_on() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        let hold = |suspects: &mut Suspects, token, outcome: Outcome, at: Instant| {
            let held_for = held_for(&outcome).expect("it is held back");
            suspects.hold(exit(token, outcome), at + held_for);
        };
        hold(&mut suspects, 1, Outcome::Code(1), now);
        assert!(!suspects.is_any_by_signal());
        hold(&mut suspects, 2, Outcome::Code(137), now);
        let later = now + WINDOW / 2;
        hold(&mut suspects, 3, Outcome::Signal(libc::SIGTERM), later);
        assert!(suspects.is_any_by_signal());
        assert_eq!(suspects.until(), Some(now + CAUGHT));
        assert_eq!(tokens(&suspects.take_due(now)), [0; 0]);
        assert_eq!(tokens(&suspects.take_due(now + CAUGHT)), [1]);
        assert_eq!(suspects.until(), Some(now + WINDOW));
        assert_eq!(tokens(&suspects.take_due(now + WINDOW)), [2]);
        assert_eq!(tokens(&suspects.take_all()), [3]);
        assert_eq!(suspects.until(), None);
    }
}
