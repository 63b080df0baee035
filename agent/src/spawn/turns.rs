//! The order of programs: a launch waits until its slot is free and then starts at once, without a message to
//! the driver. Ends are passed on in batches while other launches wait: one by one, they would cost more than
//! short tasks.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    time::{Duration, Instant},
};

use super::{Exit, Launch};

/// Longest delay of an end, in case a long task follows short ones.
const HOLD: Duration = Duration::from_millis(5);

/// A place where tasks run one after another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Line {
    /// A slot.
    Slot(usize),
    /// A resident program, which has its own queue.
    Resident(u64),
}

/// The lines of one thread.
#[derive(Default)]
pub(super) struct Turns {
    lines: HashMap<Line, State>,
    line_of: HashMap<u64, Line>,
    held: Vec<Exit>,
    held_since: Option<Instant>,
    is_due: bool,
}

#[derive(Default)]
struct State {
    /// Number of tasks that have not ended.
    n_open: usize,
    /// Number of ends that are not passed on.
    n_held: usize,
    waiting: VecDeque<Launch>,
}

impl Turns {
    /// Adds a task to a line; returns whether it is the first one.
    pub(super) fn enter(&mut self, token: u64, line: Line) -> bool {
        self.line_of.insert(token, line);
        let state = self.lines.entry(line).or_default();
        state.n_open += 1;
        state.n_open == 1
    }

    /// Returns the launch if its slot is free, else keeps it until then.
    pub(super) fn launch(&mut self, launch: Launch) -> Option<Launch> {
        let line = Line::Slot(launch.slot);
        if self.enter(launch.token, line) {
            return Some(launch);
        }
        if let Some(state) = self.lines.get_mut(&line) {
            state.waiting.push_back(launch);
        }
        None
    }

    /// Withdraws a queued launch; returns whether it was queued.
    pub(super) fn withdraw(&mut self, token: u64) -> bool {
        let state = self.line_of.get(&token).and_then(|line| self.lines.get_mut(line));
        let Some(state) = state else { return false };
        let n_before = state.waiting.len();
        state.waiting.retain(|launch| launch.token != token);
        state.waiting.len() < n_before
    }

    /// Keeps the end of a task until it is passed on. Returns the next launch of its line.
    pub(super) fn ended(&mut self, exit: Exit) -> Option<Launch> {
        let state = self.line_of.remove(&exit.token).and_then(|line| self.lines.get_mut(&line));
        self.held_since.get_or_insert_with(Instant::now);
        self.held.push(exit);
        let Some(state) = state else {
            self.is_due = true;
            return None;
        };
        state.n_open -= 1;
        state.n_held += 1;
        // Passed on early enough for new tasks to arrive before the line is empty.
        self.is_due |= state.n_held >= state.n_open;
        // A withdrawn launch ends while the launch before it runs; the next one does not start then.
        if state.n_open == state.waiting.len() { state.waiting.pop_front() } else { None }
    }

    /// Returns when ends must be passed on; `None`: there are none.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.held_since.map(|since| since + HOLD)
    }

    /// Returns the ends that are due.
    pub(super) fn take_due(&mut self) -> Vec<Exit> {
        if !self.is_due && self.due_at().is_none_or(|at| Instant::now() < at) {
            return Vec::new();
        }
        self.is_due = false;
        self.held_since = None;
        self.lines.retain(|_, state| {
            state.n_held = 0;
            state.n_open > 0
        });
        mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Line, Turns};
    use crate::spawn::{Exit, Launch, Outcome, tests::launch};

    fn for_one_slot(token: u64) -> Launch {
        Launch { slot: 3, ..launch(token, &["true"]) }
    }

    fn ended(token: u64) -> Exit {
        Exit::new(token, Outcome::Code(0), Instant::now())
    }

    fn tokens(exits: Vec<Exit>) -> Vec<u64> {
        exits.into_iter().map(|exit| exit.token).collect()
    }

    #[test]
    fn launches_for_one_slot_follow_each_other_and_their_ends_are_told_in_batches() {
        let mut turns = Turns::default();
        let mut begins = |token| turns.launch(for_one_slot(token)).map(|launch| launch.token);
        assert_eq!((1..=5).map(&mut begins).collect::<Vec<_>>(), [Some(1), None, None, None, None]);
        assert_eq!(turns.ended(ended(1)).map(|launch| launch.token), Some(2));
        assert!(turns.take_due().is_empty(), "four others keep the slot busy");
        assert_eq!(turns.ended(ended(2)).map(|launch| launch.token), Some(3));
        assert!(turns.due_at().is_some());
        assert_eq!(turns.ended(ended(3)).map(|launch| launch.token), Some(4));
        assert_eq!(tokens(turns.take_due()), [1, 2, 3]);
        assert!(turns.withdraw(5) && !turns.withdraw(5) && !turns.withdraw(4));
        assert!(turns.ended(ended(5)).is_none());
        assert!(turns.ended(ended(4)).is_none());
        assert_eq!(tokens(turns.take_due()), [5, 4]);
        assert_eq!(turns.launch(for_one_slot(6)).map(|launch| launch.token), Some(6));
    }

    #[test]
    fn a_lonely_end_is_told_at_once() {
        let mut turns = Turns::default();
        assert!(turns.enter(1, Line::Resident(7)) && !turns.enter(2, Line::Resident(7)));
        turns.ended(ended(1));
        assert_eq!(tokens(turns.take_due()), [1]);
        turns.ended(ended(2));
        assert_eq!(tokens(turns.take_due()), [2]);
    }
}
