//! The tasks of one pilot that could begin now: its own and the shared ones, those with most data first.

use std::{cmp::Reverse, collections::BTreeMap};

/// Two queues, ordered by how much data their tasks read ([`weight`](super::Stealing::weight)); equal ones in the
/// order of entry.
///
/// Entering, beginning and giving away are O(log n) a task.
#[derive(Clone, Debug)]
pub struct ReadyQueues<T> {
    own: Queue<T>,
    shared: Queue<T>,
    n_entered: u64,
}

/// Where a task waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it was ordered by.
    pub bytes: u64,
    /// Whether it was to stay with its data.
    pub is_own: bool,
}

/// Ascending: least data first, and of equal ones the last entered.
type Queue<T> = BTreeMap<(u64, Reverse<u64>), T>;

impl<T> ReadyQueues<T> {
    /// With nothing in them.
    pub fn new() -> ReadyQueues<T> {
        ReadyQueues { own: Queue::new(), shared: Queue::new(), n_entered: 0 }
    }

    /// Enters a task that stays here (the paper's LReadyQ).
    pub fn keep(&mut self, bytes: u64, task: T) {
        self.n_entered += 1;
        self.own.insert((bytes, Reverse(self.n_entered)), task);
    }

    /// Enters a task that others may take (the paper's SReadyQ).
    pub fn share(&mut self, bytes: u64, task: T) {
        self.n_entered += 1;
        self.shared.insert((bytes, Reverse(self.n_entered)), task);
    }

    /// The task to begin, and where it waited: of its own before shared ones, with most data.
    pub fn begin(&mut self) -> Option<(T, Place)> {
        let own = self.own.pop_last().map(|next| (next, true));
        let next = own.or_else(|| self.shared.pop_last().map(|next| (next, false)));
        next.map(|(((bytes, _), task), is_own)| (task, Place { bytes, is_own }))
    }

    /// Gives a thief half of what it may take, with the bytes, rounded up so that a single task can be stolen, and
    /// `n_most` at most: shared ones first, and those with least data, which cost it least.
    ///
    /// `may_leave`: whether a task of its own may go, by how many wait here and the task's bytes; asked in
    /// ascending order until the first no. O(k log n), where k may be taken.
    pub fn give_half(&mut self, n_most: usize, may_leave: impl Fn(usize, u64) -> bool) -> Vec<(u64, T)> {
        let n_own = self.own.len();
        let lent = self.own.keys().enumerate().take_while(|(n, (bytes, _))| may_leave(n_own - n, *bytes));
        let n = (self.shared.len() + lent.count()).div_ceil(2);
        let given = std::iter::from_fn(|| self.shared.pop_first().or_else(|| self.own.pop_first()));
        given.take(n.min(n_most)).map(|((bytes, _), task)| (bytes, task)).collect()
    }

    /// Forgets all others.
    pub fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.own.retain(|_, task| is_kept(task));
        self.shared.retain(|_, task| is_kept(task));
    }

    /// What to tell an idle pilot that asks: how many shared tasks there are, and all of its own when the one
    /// with least data may leave. More than could be taken, perhaps; 0 only if none could. O(log n).
    pub fn n_offered(&self, may_leave: impl Fn(usize, u64) -> bool) -> usize {
        let lightest = self.own.first_key_value().map(|((bytes, _), _)| *bytes);
        let n_own = lightest.filter(|bytes| may_leave(self.own.len(), *bytes)).map_or(0, |_| self.own.len());
        self.shared.len() + n_own
    }

    /// Moves so many of its own tasks, or as many as there are, to the shared ones: those with least data.
    pub fn release(&mut self, n: usize) {
        for _ in 0..n {
            let Some((key, task)) = self.own.pop_first() else { return };
            self.shared.insert(key, task);
        }
    }

    /// How many tasks stay here.
    pub fn n_own(&self) -> usize {
        self.own.len()
    }

    /// How many could be taken.
    pub fn n_shared(&self) -> usize {
        self.shared.len()
    }
}

impl<T> Default for ReadyQueues<T> {
    fn default() -> ReadyQueues<T> {
        ReadyQueues::new()
    }
}

#[cfg(test)]
mod tests;
