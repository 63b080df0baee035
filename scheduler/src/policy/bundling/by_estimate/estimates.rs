//! Estimates of the waiting tasks, in their order.

use std::collections::BTreeMap;

use super::Waiting;

/// A multiset of estimates: tasks with equal estimates are only counted.
#[derive(Clone, Debug, Default)]
pub struct Estimates {
    /// Keys are the bits of the estimates; for numbers that are not negative they have the numbers' order.
    counts: BTreeMap<u64, u32>,
    n_tasks: u64,
    work: f64,
    largest_ever: f64,
}

impl Estimates {
    /// Returns the number of waiting tasks.
    pub fn n_tasks(&self) -> u64 {
        self.n_tasks
    }

    /// Returns whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.n_tasks == 0
    }

    /// Returns the sum of the waiting tasks' estimates; exactly 0 if no task waits.
    pub fn work(&self) -> f64 {
        self.work
    }

    /// Returns the largest estimate of the waiting tasks.
    pub fn largest(&self) -> Option<f64> {
        self.counts.last_key_value().map(|(bits, _)| f64::from_bits(*bits))
    }

    /// Returns the largest estimate of all tasks that ever waited; 0 if there was none.
    pub fn largest_ever(&self) -> f64 {
        self.largest_ever
    }

    /// Adds a task that is new or was returned. O(log n).
    ///
    /// # Panics
    /// The estimate is negative or not finite.
    pub fn insert(&mut self, estimate: f64) {
        *self.counts.entry(bits_of(estimate)).or_default() += 1;
        self.n_tasks += 1;
        self.work += estimate;
        self.largest_ever = self.largest_ever.max(estimate);
    }

    /// Takes the largest waiting task whose estimate is at most `bound`. O(log n).
    pub fn take_at_most(&mut self, bound: f64) -> Option<f64> {
        // Rounding can make a bound negative; tasks with estimate 0 fit even then.
        let bits = if bound >= 0.0 { bound.to_bits() } else { 0 };
        let (bits, count) = self.counts.range_mut(..=bits).next_back()?;
        let bits = *bits;
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&bits);
        }
        self.n_tasks -= 1;
        let estimate = f64::from_bits(bits);
        self.work = if self.n_tasks == 0 { 0.0 } else { self.work - estimate };
        Some(estimate)
    }
}

impl Waiting for Estimates {
    type Task = ();

    fn largest(&self) -> Option<f64> {
        Estimates::largest(self)
    }

    fn largest_ever(&self) -> f64 {
        self.largest_ever
    }

    fn work(&self) -> f64 {
        self.work
    }

    fn take_at_most(&mut self, bound: f64) -> Option<(f64, ())> {
        Estimates::take_at_most(self, bound).map(|estimate| (estimate, ()))
    }
}

impl FromIterator<f64> for Estimates {
    /// Collects estimates. O(n log n), and O(n) if they are sorted.
    ///
    /// # Panics
    /// An estimate is negative or not finite.
    fn from_iter<I: IntoIterator<Item = f64>>(estimates: I) -> Estimates {
        let mut all: Vec<u64> = estimates.into_iter().map(bits_of).collect();
        all.sort_unstable();
        let work = all.iter().map(|bits| f64::from_bits(*bits)).sum();
        let largest_ever = all.last().map_or(0.0, |bits| f64::from_bits(*bits));
        let runs = all.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32));
        Estimates { counts: runs.collect(), n_tasks: all.len() as u64, work, largest_ever }
    }
}

fn bits_of(estimate: f64) -> u64 {
    assert!(estimate.is_finite() && estimate >= 0.0, "an estimate of {estimate}");
    // Without the addition, a negative zero would have the largest bits of all.
    (estimate + 0.0).to_bits()
}
