//! Adaptive work stealing: the pilots that an idle pilot asks, and the pause between its attempts (paper
//! 004).

use crate::{rng::Rng, time::Span};

/// The pause before the first attempt.
pub const PAUSE_FIRST: Span = Span::from_millis(1);
/// The pause above which a pilot stops its attempts.
pub const PAUSE_MAX: Span = Span::from_secs(50);

/// The longest pause once tasks have come: other pilots may have some, too.
const PAUSE_AFTER_WORK: Span = Span::from_millis(64);

/// The state of an idle pilot's search. One for each pilot.
#[derive(Clone, Debug)]
pub struct Hunt {
    pause: Span,
}

impl Hunt {
    /// Starts before the first attempt.
    pub fn new() -> Hunt {
        Hunt { pause: PAUSE_FIRST }
    }

    /// Returns the pause before the next attempt; `None` if so many failed that the pilot has stopped.
    pub fn pause(&self) -> Option<Span> {
        (self.pause <= PAUSE_MAX).then_some(self.pause)
    }

    /// Notes that an attempt brought tasks.
    pub fn succeeded(&mut self) {
        self.pause = PAUSE_FIRST;
    }

    /// Notes that an attempt brought nothing: the pause doubles.
    pub fn failed(&mut self) {
        self.pause = self.pause.times(2);
    }

    /// Notes that tasks have come from elsewhere.
    pub fn work_came(&mut self) {
        self.pause = self.pause.min(PAUSE_AFTER_WORK);
    }

    /// Notes that a pilot has begun to share: a pilot that has stopped tries again. Otherwise no pilot would
    /// steal the tasks that FLDS shares at the end of a run.
    pub fn revive(&mut self) {
        if self.pause().is_none() {
            self.pause = PAUSE_FIRST;
        }
    }
}

impl Default for Hunt {
    fn default() -> Hunt {
        Hunt::new()
    }
}

/// Returns the pilots to ask: as many as the square root of `n_pilots`, drawn among the others, possibly
/// repeated. None if there are no others.
pub fn whom_to_ask(n_pilots: usize, here: usize, luck: &mut Rng) -> impl Iterator<Item = usize> {
    let n = if n_pilots > 1 { n_pilots.isqrt() } else { 0 };
    (0..n).map(move |_| {
        let drawn = luck.below(n_pilots as u64 - 1) as usize;
        if drawn < here { drawn } else { drawn + 1 }
    })
}

/// Returns the pilot to steal from: the one with most shared tasks, of equal ones the first asked; `None` if
/// none has any. `asked`: (pilot, its shared tasks).
pub fn victim(asked: impl IntoIterator<Item = (usize, usize)>) -> Option<usize> {
    let longest =
        asked.into_iter().reduce(|longest, other| if other.1 > longest.1 { other } else { longest });
    longest.filter(|(_, n_shared)| *n_shared > 0).map(|(pilot, _)| pilot)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Hunt, PAUSE_MAX, victim, whom_to_ask};
    use crate::{rng::Rng, time::Span};

    #[test]
    fn waits_double_until_the_hunter_gives_up() {
        let mut hunt = Hunt::new();
        let mut waits_ms = Vec::new();
        while let Some(pause) = hunt.pause() {
            waits_ms.push(pause.0 / 1000);
            hunt.failed();
        }
        assert_eq!(waits_ms, (0..16).map(|n| 1 << n).collect::<Vec<u64>>());
        hunt.revive();
        assert_eq!(hunt.pause(), Some(Span::from_millis(1)));
        hunt.failed();
        hunt.revive();
        assert_eq!(hunt.pause(), Some(Span::from_millis(2)));
        hunt.succeeded();
        assert_eq!(hunt.pause(), Some(Span::from_millis(1)));
    }

    #[test]
    fn the_longest_queue_is_robbed_and_an_empty_one_never() {
        assert_eq!(victim([(4, 2), (7, 5), (1, 5)]), Some(7));
        assert_eq!(victim([(4, 0), (7, 0)]), None);
        assert_eq!(victim([]), None);
    }

    #[test]
    fn as_many_are_asked_as_the_square_root() {
        let n_asked = |n| whom_to_ask(n, 0, &mut Rng::new(1)).count();
        assert_eq!([0, 1, 2, 3, 4, 99, 100, 65_536].map(n_asked), [0, 0, 1, 1, 2, 9, 10, 256]);
    }

    proptest! {
        #[test]
        fn only_others_are_asked(n in 2..2000usize, here in any::<prop::sample::Index>(), seed in any::<u64>()) {
            let here = here.index(n);
            let mut luck = Rng::new(seed);
            prop_assert!(whom_to_ask(n, here, &mut luck).all(|pilot| pilot < n && pilot != here));
        }

        #[test]
        fn waits_are_bounded_whatever_happens(happenings in prop::collection::vec(0..3u8, 0..200)) {
            let mut hunt = Hunt::new();
            for happening in happenings {
                match happening {
                    0 => hunt.succeeded(),
                    1 => hunt.revive(),
                    _ => hunt.failed(),
                }
                let pause = hunt.pause();
                prop_assert!(pause.is_none_or(|pause| pause >= super::PAUSE_FIRST && pause <= PAUSE_MAX));
            }
        }
    }
}
