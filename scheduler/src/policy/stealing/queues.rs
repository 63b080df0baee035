//! The tasks of one pilot that could begin now: its own and the shared ones, those with most data first.

use std::{cmp::Reverse, collections::BTreeMap};

/// Two queues, ordered by the data of their tasks ([`weight`](super::Stealing::weight)), equal ones in the
/// order of entry.
///
/// Entering, beginning and giving away cost O(log n) for each task.
#[derive(Clone, Debug)]
pub struct ReadyQueues<T> {
    own: Queue<T>,
    shared: Queue<T>,
    n_entered: u64,
}

/// The queue in which a task waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The bytes by which it was ordered.
    pub bytes: u64,
    /// Whether it was in the own queue, to stay with its data.
    pub is_own: bool,
}

/// Ascending: least data first; of equal ones the last entered.
type Queue<T> = BTreeMap<(u64, Reverse<u64>), T>;

impl<T> ReadyQueues<T> {
    /// Makes empty queues.
    pub fn new() -> ReadyQueues<T> {
        ReadyQueues { own: Queue::new(), shared: Queue::new(), n_entered: 0 }
    }

    /// Adds a task that stays here (the paper's LReadyQ).
    pub fn keep(&mut self, bytes: u64, task: T) {
        self.n_entered += 1;
        self.own.insert((bytes, Reverse(self.n_entered)), task);
    }

    /// Adds a task that others may steal (the paper's SReadyQ).
    pub fn share(&mut self, bytes: u64, task: T) {
        self.n_entered += 1;
        self.shared.insert((bytes, Reverse(self.n_entered)), task);
    }

    /// Takes the task to begin, and returns the queue in which it waited: own tasks before shared ones, and
    /// the task with most data first.
    pub fn begin(&mut self) -> Option<(T, Place)> {
        let own = self.own.pop_last().map(|next| (next, true));
        let next = own.or_else(|| self.shared.pop_last().map(|next| (next, false)));
        next.map(|(((bytes, _), task), is_own)| (task, Place { bytes, is_own }))
    }

    /// Takes half of the tasks that a thief may steal, with their bytes: rounded up so that a single task can
    /// be stolen, and `n_most` at most. Shared tasks go first, and tasks with least data, which cost the
    /// thief least.
    ///
    /// `may_leave`: whether an own task may go, by the number of tasks that wait here and the task's bytes;
    /// called in ascending order until the first `false`. O(k log n), where k may be stolen.
    pub fn give_half(&mut self, n_most: usize, may_leave: impl Fn(usize, u64) -> bool) -> Vec<(u64, T)> {
        let n_own = self.own.len();
        let lent = self.own.keys().enumerate().take_while(|(n, (bytes, _))| may_leave(n_own - n, *bytes));
        let n = (self.shared.len() + lent.count()).div_ceil(2);
        let given = std::iter::from_fn(|| self.shared.pop_first().or_else(|| self.own.pop_first()));
        given.take(n.min(n_most)).map(|((bytes, _), task)| (bytes, task)).collect()
    }

    /// Removes all tasks that are not to be kept.
    pub fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.own.retain(|_, task| is_kept(task));
        self.shared.retain(|_, task| is_kept(task));
    }

    /// Returns the number to send to an idle pilot that asks: the number of shared tasks, plus all own tasks
    /// if the one with least data may leave. This may be more than can be stolen, but is 0 only if none can.
    /// O(log n).
    pub fn n_offered(&self, may_leave: impl Fn(usize, u64) -> bool) -> usize {
        let lightest = self.own.first_key_value().map(|((bytes, _), _)| *bytes);
        let n_own = lightest.filter(|bytes| may_leave(self.own.len(), *bytes)).map_or(0, |_| self.own.len());
        self.shared.len() + n_own
    }

    /// Moves `n` own tasks, or as many as there are, to the shared queue: the ones with least data.
    pub fn release(&mut self, n: usize) {
        for _ in 0..n {
            let Some((key, task)) = self.own.pop_first() else { return };
            self.shared.insert(key, task);
        }
    }

    /// Returns the number of tasks that stay here.
    pub fn n_own(&self) -> usize {
        self.own.len()
    }

    /// Returns the number of shared tasks.
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
