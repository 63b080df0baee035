//! Ends of tasks that may be the platform's doing. A batch system, a host that shuts down or a memory killer of
//! the site signals all processes of a pilot, and tasks end before the pilot hears of it, or before it is killed
//! itself. Such an end is no failure of the program, so it is held back until the pilot has lived on for a moment.
//! If the pilot is signalled meanwhile, its platform ended the task. If it is killed, it has reported nothing, and
//! the manager counts the task as lost with its pilot.
//!
//! A success may be the platform's doing, too. A script whose running step is ended by the signal goes on with its next
//! one, and ends with success before the signal reaches the script itself. So a success that comes within a moment of
//! the pilot's own signal is no proof, and that of a task of some length waits for a part of the time that it took.
//!
//! The slot of such a task is free at once; only what came of the task waits.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use scheduler::results::FAILURES_HELD_BACK;

use crate::spawn::{Exit, Outcome};

/// A pilot is signalled, or killed, within this time after its tasks.
pub(super) const WINDOW: Duration = Duration::from_secs(3);

/// A program that catches the signal which all processes get may end by any code, but the pilot has the same signal
/// within this time.
const CAUGHT: Duration = Duration::from_micros(FAILURES_HELD_BACK.0);

/// A success that comes within this time after the pilot's signal may be that of a program that was cut short.
const CUT_SHORT: Duration = Duration::from_secs(1);

/// The same if the program got the signal as well and did not ignore it: it may have saved what it had. Hosts that shut
/// down give their services so long.
const SAVING: Duration = Duration::from_secs(90);

/// Successes of shorter tasks are reported at once: there may be thousands a second.
const SHORT: Duration = Duration::from_millis(20);
/// A success is held back for this part of the time that its task took, but not for less than [`SUCCESS_HELD_MIN`].
const PART_OF_TASK: u32 = 16;
const SUCCESS_HELD_MIN: Duration = Duration::from_millis(5);

/// Ends that are held back. There may be thousands where every task fails, so the ends of each window stand in the order
/// in which they are due.
#[derive(Default)]
pub(super) struct Suspects {
    by_signal: VecDeque<Held>,
    others: VecDeque<Held>,
}

struct Held {
    exit: Exit,
    /// When it is believed to be the program's own end.
    until: Instant,
}

impl Suspects {
    /// Holds back an end for so long.
    pub(super) fn hold(&mut self, exit: Exit, until: Instant) {
        let queue = if may_be_the_platforms(&exit.outcome) { &mut self.by_signal } else { &mut self.others };
        // Ends come in the order of time, so this is at the end but for clocks that hesitate.
        let at = queue.iter().rposition(|held| held.until <= until).map_or(0, |last| last + 1);
        queue.insert(at, Held { exit, until });
    }

    /// Whether any is held back that a signal has caused.
    pub(super) fn is_any_by_signal(&self) -> bool {
        !self.by_signal.is_empty()
    }

    /// When the next one is to be taken.
    pub(super) fn until(&self) -> Option<Instant> {
        [&self.by_signal, &self.others]
            .into_iter()
            .filter_map(|queue| queue.front())
            .map(|held| held.until)
            .min()
    }

    /// Takes those for which the pilot has lived on long enough.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Exit> {
        let mut due = Vec::new();
        for queue in [&mut self.by_signal, &mut self.others] {
            let n_due = queue.partition_point(|held| held.until <= now);
            due.extend(queue.drain(..n_due).map(|held| held.exit));
        }
        due
    }

    /// Takes all of them: whose signal it was is known now.
    pub(super) fn take_all(&mut self) -> Vec<Exit> {
        let Suspects { by_signal, others } = std::mem::take(self);
        by_signal.into_iter().chain(others).map(|held| held.exit).collect()
    }
}

/// For how long a failure is held back, if it may be the platform's doing.
pub(super) fn held_for(outcome: &Outcome) -> Option<Duration> {
    match outcome {
        _ if may_be_the_platforms(outcome) => Some(WINDOW),
        Outcome::Code(_) | Outcome::Signal(_) | Outcome::BadAnswer { .. } => Some(CAUGHT),
        // What the pilot itself has done.
        _ => None,
    }
}

/// For how long the success of a task is held back that took so long.
pub(super) fn success_held_for(wall: Duration) -> Option<Duration> {
    (wall >= SHORT).then(|| (wall / PART_OF_TASK).clamp(SUCCESS_HELD_MIN, CAUGHT))
}

/// Whether a program that ended with success at that time may have been cut short by what signalled the pilot.
pub(super) fn is_cut_short(ended: Instant, signalled: Instant, was_signalled: bool) -> bool {
    let limit = if was_signalled { SAVING } else { CUT_SHORT };
    ended + CAUGHT >= signalled && ended <= signalled + limit
}

/// Whether the platform may have ended a process so. SIGKILL is among the signals: what the pilot itself kills has
/// another outcome.
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

/// Whether SIGKILL ended a process, or a shell says so of its child.
pub(super) fn is_killed(outcome: &Outcome) -> bool {
    ending_signal(outcome) == Some(libc::SIGKILL)
}

/// The signal that ended a process, or the child of a shell, which says so by a code of 128 and the number.
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
