//! Sets of task indices as ranges, so that a billion tasks cost as much as one.

use std::{fmt, ops::Range};

use rangemap::RangeSet;
use serde::{Deserialize, Serialize};

/// A set of task indices, kept as disjoint half-open ranges.
///
/// Cost: memory and time grow with the number of ranges, never with the number of indices.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "Vec<(u64, u64)>"))]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct TaskSet {
    ranges: RangeSet<u64>,
    n_indices: u64,
}

impl TaskSet {
    /// The empty set.
    pub fn new() -> TaskSet {
        TaskSet::default()
    }

    /// How many indices are in the set.
    pub fn len(&self) -> u64 {
        self.n_indices
    }

    /// Whether no index is in the set.
    pub fn is_empty(&self) -> bool {
        self.n_indices == 0
    }

    /// How many ranges hold the set: what it costs.
    pub fn n_ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Whether `index` is in the set. O(log ranges).
    pub fn contains(&self, index: u64) -> bool {
        self.ranges.contains(&index)
    }

    /// Adds a range; says how many indices were new. O(ranges touched).
    pub fn insert_range(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let n_new: u64 = self.ranges.gaps(&range).map(|gap| gap.end - gap.start).sum();
        self.ranges.insert(range);
        self.n_indices += n_new;
        n_new
    }

    /// Adds one index; says whether it was new.
    pub fn insert(&mut self, index: u64) -> bool {
        self.insert_range(index..index.saturating_add(1)) == 1
    }

    /// Takes a range out; says how many indices were there. O(ranges touched).
    pub fn remove_range(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let n_gone: u64 = self
            .ranges
            .overlapping(&range)
            .map(|held| held.end.min(range.end) - held.start.max(range.start))
            .sum();
        if n_gone > 0 {
            self.ranges.remove(range);
        }
        self.n_indices -= n_gone;
        n_gone
    }

    /// Takes one index out; says whether it was there.
    pub fn remove(&mut self, index: u64) -> bool {
        self.remove_range(index..index.saturating_add(1)) == 1
    }

    /// The smallest index.
    pub fn first(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.start)
    }

    /// The ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().cloned()
    }

    /// The indices in ascending order. Only for sets known to be small.
    pub fn indices(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter().flatten()
    }

    /// Takes the `n` smallest indices (or all) out as a set of their own.
    pub fn take_first(&mut self, n: u64) -> TaskSet {
        let mut taken = TaskSet::new();
        while taken.len() < n {
            let Some(range) = self.ranges.first().cloned() else {
                break;
            };
            let end = range.end.min(range.start.saturating_add(n - taken.len()));
            self.remove_range(range.start..end);
            taken.insert_range(range.start..end);
        }
        taken
    }

    /// Takes the `n` smallest indices (or all) that are not in `excluded` out as a set of their own.
    /// O(ranges walked over).
    pub fn take_first_outside(&mut self, n: u64, excluded: &TaskSet) -> TaskSet {
        if excluded.is_empty() {
            return self.take_first(n);
        }
        let mut taken = TaskSet::new();
        let free = self.ranges.iter().flat_map(|range| excluded.ranges.gaps(range));
        for gap in free {
            let end = gap.end.min(gap.start.saturating_add(n - taken.len()));
            taken.insert_range(gap.start..end);
            if taken.len() == n {
                break;
            }
        }
        self.remove_all(&taken);
        taken
    }

    /// The indices of both sets.
    pub fn intersection(&self, other: &TaskSet) -> TaskSet {
        let (few, many) = if self.n_ranges() <= other.n_ranges() { (self, other) } else { (other, self) };
        let mut both = TaskSet::new();
        for range in few.iter() {
            for held in many.ranges.overlapping(&range) {
                both.insert_range(held.start.max(range.start)..held.end.min(range.end));
            }
        }
        both
    }

    /// Adds single indices. Runs of ascending ones cost as much as one.
    pub fn extend_indices(&mut self, indices: impl IntoIterator<Item = u64>) {
        let mut run = 0..0;
        for index in indices {
            if index != run.end || run.is_empty() {
                self.insert_range(run);
                run = index..index;
            }
            run.end = index.saturating_add(1);
        }
        self.insert_range(run);
    }

    /// Adds all of `other`.
    pub fn insert_all(&mut self, other: &TaskSet) {
        for range in other.iter() {
            self.insert_range(range);
        }
    }

    /// Takes out all of `other`.
    pub fn remove_all(&mut self, other: &TaskSet) {
        for range in other.iter() {
            self.remove_range(range);
        }
    }
}

impl From<Range<u64>> for TaskSet {
    fn from(range: Range<u64>) -> TaskSet {
        let mut set = TaskSet::new();
        set.insert_range(range);
        set
    }
}

impl From<Vec<(u64, u64)>> for TaskSet {
    fn from(pairs: Vec<(u64, u64)>) -> TaskSet {
        let mut set = TaskSet::new();
        for (start, end) in pairs {
            set.insert_range(start..end);
        }
        set
    }
}

impl From<TaskSet> for Vec<(u64, u64)> {
    fn from(set: TaskSet) -> Vec<(u64, u64)> {
        set.iter().map(|range| (range.start, range.end)).collect()
    }
}

impl FromIterator<u64> for TaskSet {
    fn from_iter<I: IntoIterator<Item = u64>>(indices: I) -> TaskSet {
        let mut set = TaskSet::new();
        set.extend_indices(indices);
        set
    }
}

/// As people write it: `0-9,12,20-29` (inclusive ends).
impl fmt::Display for TaskSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            match range.end - range.start {
                1 => write!(f, "{comma}{}", range.start)?,
                _ => write!(f, "{comma}{}-{}", range.start, range.end - 1)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for TaskSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::TaskSet;

    #[test]
    fn a_billion_indices_are_one_range() {
        let mut set = TaskSet::from(0..1_000_000_000);
        assert_eq!(set.take_first(3).to_string(), "0-2");
        assert_eq!((set.len(), set.n_ranges()), (999_999_997, 1));
    }

    #[test]
    fn the_last_index_of_all_can_be_held() {
        let mut set = TaskSet::from(u64::MAX - 2..u64::MAX);
        assert_eq!(set.take_first(u64::MAX).len(), 2);
        assert!(set.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Change {
        Insert(u64, u64),
        Remove(u64, u64),
        Take(u64),
        TakeOutside(u64, u64, u64),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let change = prop_oneof![
            (0..60u64, 0..20u64).prop_map(|(start, n)| Change::Insert(start, n)),
            (0..60u64, 0..20u64).prop_map(|(start, n)| Change::Remove(start, n)),
            (0..10u64).prop_map(Change::Take),
            (0..10u64, 0..60u64, 0..20u64).prop_map(|(n, start, len)| Change::TakeOutside(n, start, len)),
        ];
        prop::collection::vec(change, 0..40)
    }

    proptest! {
        #[test]
        fn behaves_like_a_plain_set(changes in changes()) {
            let mut set = TaskSet::new();
            let mut plain = BTreeSet::new();
            for change in changes {
                match change {
                    Change::Insert(start, n) => {
                        let new = (start..start + n).filter(|i| plain.insert(*i)).count() as u64;
                        prop_assert_eq!(set.insert_range(start..start + n), new);
                    }
                    Change::Remove(start, n) => {
                        let gone = (start..start + n).filter(|i| plain.remove(i)).count() as u64;
                        prop_assert_eq!(set.remove_range(start..start + n), gone);
                    }
                    Change::Take(n) => {
                        let expected: Vec<u64> = plain.iter().copied().take(n as usize).collect();
                        plain.retain(|i| !expected.contains(i));
                        prop_assert_eq!(set.take_first(n).indices().collect::<Vec<_>>(), expected);
                    }
                    Change::TakeOutside(n, start, len) => {
                        let excluded = TaskSet::from(start..start + len);
                        let free = plain.iter().copied().filter(|i| !excluded.contains(*i));
                        let expected: Vec<u64> = free.take(n as usize).collect();
                        plain.retain(|i| !expected.contains(i));
                        let taken = set.take_first_outside(n, &excluded);
                        prop_assert_eq!(taken.indices().collect::<Vec<_>>(), expected);
                    }
                }
                prop_assert_eq!(set.len(), plain.len() as u64);
                prop_assert_eq!(set.indices().collect::<Vec<_>>(), plain.iter().copied().collect::<Vec<_>>());
            }
        }

        #[test]
        fn intersection_is_what_both_hold(a in prop::collection::btree_set(0..50u64, 0..30), b in prop::collection::btree_set(0..50u64, 0..30)) {
            let both = a.iter().copied().collect::<TaskSet>().intersection(&b.iter().copied().collect());
            prop_assert_eq!(both.indices().collect::<BTreeSet<_>>(), a.intersection(&b).copied().collect());
        }
    }
}
