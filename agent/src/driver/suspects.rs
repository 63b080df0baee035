//! Ends of tasks that may be the platform's doing. A batch system, a host that shuts down or a memory killer of
//! the site signals all processes of a pilot, and tasks end before the pilot hears of it, or before it is killed
//! itself. Such an end is no failure of the program, so it is held back until the pilot has lived on for a moment.
//! If the pilot is signalled meanwhile, its platform ended the task. If it is killed, it has reported nothing, and
//! the manager counts the task as lost with its pilot.
//!
//! Only the slot of such a task waits. Results of other slots are reported at once.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use crate::spawn::{Exit, Outcome};

/// A pilot is signalled, or killed, within this time after its tasks.
pub(super) const WINDOW: Duration = Duration::from_secs(3);

/// Ends that are held back, by slot, each slot's in order.
#[derive(Default)]
pub(super) struct Suspects {
    slots: BTreeMap<usize, VecDeque<Held>>,
}

struct Held {
    exit: Exit,
    /// When it is believed to be the program's own end; `None`: it only waits for those before it.
    until: Option<Instant>,
}

impl Suspects {
    /// Holds back an end that is suspect, or that comes after one of the same slot; returns any other.
    pub(super) fn pass(&mut self, slot: usize, exit: Exit, is_suspect: bool, now: Instant) -> Option<Exit> {
        let until = is_suspect.then_some(now + WINDOW);
        match self.slots.get_mut(&slot) {
            Some(held) => held.push_back(Held { exit, until }),
            None if is_suspect => drop(self.slots.insert(slot, VecDeque::from([Held { exit, until }]))),
            None => return Some(exit),
        }
        None
    }

    /// Whether any end is held back.
    pub(super) fn is_any(&self) -> bool {
        !self.slots.is_empty()
    }

    /// When the next one is to be taken.
    pub(super) fn until(&self) -> Option<Instant> {
        self.slots.values().filter_map(|held| held.front()?.until).min()
    }

    /// Takes those for which the pilot has lived on long enough.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Exit> {
        let mut due = Vec::new();
        for held in self.slots.values_mut() {
            while held.front().is_some_and(|first| first.until.is_none_or(|until| until <= now)) {
                due.extend(held.pop_front().map(|first| first.exit));
            }
        }
        self.slots.retain(|_, held| !held.is_empty());
        due
    }

    /// Takes all of them: whose signal it was is known now.
    pub(super) fn take_all(&mut self) -> Vec<Exit> {
        std::mem::take(&mut self.slots).into_values().flatten().map(|held| held.exit).collect()
    }
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

    /// Passes an end of that slot; returns whether it is held back.
    fn is_held(suspects: &mut Suspects, slot: usize, token: u64, outcome: Outcome, now: Instant) -> bool {
        let is_suspect = may_be_the_platforms(&outcome);
        suspects.pass(slot, exit(token, outcome), is_suspect, now).is_none()
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
        assert!(is_killed(&Outcome::Code(137)) && !is_killed(&Outcome::Code(143)));
    }

    #[test]
    fn a_suspect_end_holds_back_its_own_slot_and_no_other() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        assert!(!is_held(&mut suspects, 0, 1, Outcome::Signal(libc::SIGSEGV), now));
        assert!(is_held(&mut suspects, 0, 2, Outcome::Signal(libc::SIGKILL), now));
        assert!(is_held(&mut suspects, 0, 3, Outcome::Code(0), now), "it came after one of its slot");
        assert!(!is_held(&mut suspects, 1, 4, Outcome::Code(0), now), "an ordinary result of another slot");
        assert!(suspects.is_any());
        assert_eq!(tokens(&suspects.take_all()), [2, 3]);
        assert!(suspects.until().is_none() && !suspects.is_any());
        assert!(!is_held(&mut suspects, 0, 5, Outcome::Code(0), now));
    }

    #[test]
    fn an_end_is_the_programs_own_once_the_pilot_has_lived_on() {
        let (mut suspects, now) = (Suspects::default(), Instant::now());
        let later = now + WINDOW / 2;
        assert!(is_held(&mut suspects, 0, 1, Outcome::Code(137), now));
        assert!(is_held(&mut suspects, 0, 2, Outcome::Code(0), later));
        assert!(is_held(&mut suspects, 0, 3, Outcome::Signal(libc::SIGTERM), later));
        assert!(is_held(&mut suspects, 1, 4, Outcome::Signal(libc::SIGTERM), later));
        assert_eq!(suspects.until(), Some(now + WINDOW));
        assert_eq!(tokens(&suspects.take_due(later)), [0; 0]);
        assert_eq!(tokens(&suspects.take_due(now + WINDOW)), [1, 2]);
        assert_eq!(suspects.until(), Some(later + WINDOW));
        assert_eq!(tokens(&suspects.take_due(later + WINDOW)), [3, 4]);
        assert!(!suspects.is_any());
    }
}
