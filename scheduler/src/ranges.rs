//! Sets of task indices, so that a billion tasks cost as much as one.

mod words;

use std::{fmt, ops::Range};

use serde::{Deserialize, Serialize};

use self::words::{Span, Words, lowest, n_indices, spans_of};

/// A set of task indices, read and written as disjoint half-open ranges.
///
/// Cost: memory and time grow with the number of ranges, but never beyond one piece for each 64 indices that
/// they are spread over: tasks that end in any order cost little.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "Vec<(u64, u64)>"))]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct TaskSet {
    words: Words,
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

    /// How many ranges there are. Looks at all of them.
    pub fn n_ranges(&self) -> usize {
        self.iter().count()
    }

    /// Whether `index` is in the set. O(log pieces).
    pub fn contains(&self, index: u64) -> bool {
        let bit = 1 << (index % 64);
        self.words.get(index / 64) & bit != 0
    }

    /// Adds a range; says how many indices were new. O(pieces touched).
    pub fn insert_range(&mut self, range: Range<u64>) -> u64 {
        spans_of(range).map(|span| self.add(span)).sum()
    }

    fn add(&mut self, (words, bits): Span) -> u64 {
        let n_new = if words.end - words.start == 1 {
            let held = self.words.get(words.start);
            if bits & !held != 0 {
                self.words.set(words, held | bits);
            }
            u64::from((bits & !held).count_ones())
        } else {
            let n_new = n_indices(&(words.clone(), bits)) - self.n_within(words.clone());
            self.words.set(words, bits);
            n_new
        };
        self.n_indices += n_new;
        n_new
    }

    fn n_within(&self, words: Range<u64>) -> u64 {
        self.words.spans_within(words).map(|span| n_indices(&span)).sum()
    }

    /// Adds one index; says whether it was new.
    pub fn insert(&mut self, index: u64) -> bool {
        self.insert_range(index..index.saturating_add(1)) == 1
    }

    /// Takes a range out; says how many indices were there. O(pieces touched).
    pub fn remove_range(&mut self, range: Range<u64>) -> u64 {
        spans_of(range).map(|span| self.take(span)).sum()
    }

    fn take(&mut self, (words, bits): Span) -> u64 {
        let n_gone = if words.end - words.start == 1 {
            let held = self.words.get(words.start);
            if bits & held != 0 {
                self.words.set(words, held & !bits);
            }
            u64::from((bits & held).count_ones())
        } else {
            let n_gone = self.n_within(words.clone());
            self.words.set(words, 0);
            n_gone
        };
        self.n_indices -= n_gone;
        n_gone
    }

    /// Takes one index out; says whether it was there.
    pub fn remove(&mut self, index: u64) -> bool {
        self.remove_range(index..index.saturating_add(1)) == 1
    }

    /// The smallest index.
    pub fn first(&self) -> Option<u64> {
        let (words, bits) = self.words.spans().next()?;
        Some(words.start * 64 + u64::from(bits.trailing_zeros()))
    }

    /// The ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.words.ranges()
    }

    /// The indices in ascending order. Only for sets known to be small.
    pub fn indices(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter().flatten()
    }

    /// Takes the `n` smallest indices (or all) out as a set of their own.
    pub fn take_first(&mut self, n: u64) -> TaskSet {
        if n >= self.len() {
            return std::mem::take(self);
        }
        let taken = first_of(self.words.spans(), n);
        self.remove_all(&taken);
        taken
    }

    /// Takes the `n` smallest indices (or all) that are not in `excluded` out as a set of their own.
    /// O(pieces walked over).
    pub fn take_first_outside(&mut self, n: u64, excluded: &TaskSet) -> TaskSet {
        if excluded.is_empty() {
            return self.take_first(n);
        }
        let taken = first_of(self.words.without(&excluded.words), n);
        self.remove_all(&taken);
        taken
    }

    /// The indices of both sets.
    pub fn intersection(&self, other: &TaskSet) -> TaskSet {
        self.words.both(&other.words).collect()
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
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        for span in other.words.spans() {
            self.add(span);
        }
    }

    /// Takes out all of `other`.
    pub fn remove_all(&mut self, other: &TaskSet) {
        for span in other.words.spans() {
            self.take(span);
        }
    }
}

/// The first `n` indices of spans in ascending order.
fn first_of(spans: impl Iterator<Item = Span>, n: u64) -> TaskSet {
    let mut left = n;
    let wanted = spans.map_while(|(words, bits)| {
        let n_here = n_indices(&(words.clone(), bits)).min(left);
        left -= n_here;
        (n_here > 0).then_some((words, bits, n_here))
    });
    let cut = wanted.flat_map(|(words, bits, n)| {
        let n_each = u64::from(bits.count_ones());
        let middle = words.start + n / n_each;
        [(words.start..middle, bits), (middle..middle + 1, lowest(bits, n % n_each))]
    });
    cut.filter(|(words, bits)| !words.is_empty() && *bits != 0).collect()
}

/// Of spans in ascending order.
impl FromIterator<Span> for TaskSet {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> TaskSet {
        let mut n_all = 0;
        let words = spans.into_iter().inspect(|span| n_all += n_indices(span)).collect();
        TaskSet { words, n_indices: n_all }
    }
}

impl From<Range<u64>> for TaskSet {
    fn from(range: Range<u64>) -> TaskSet {
        spans_of(range).collect()
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
        assert_eq!(set.to_string(), format!("{}-{}", u64::MAX - 2, u64::MAX - 1));
        set.insert_range(0..u64::MAX);
        assert_eq!((set.len(), set.n_ranges()), (u64::MAX, 1));
        set.remove_range(0..u64::MAX - 2);
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

    /// Some within a word, some over several.
    fn len() -> impl Strategy<Value = u64> {
        prop_oneof![0..20u64, 0..300u64]
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let change = prop_oneof![
            (0..500u64, len()).prop_map(|(start, n)| Change::Insert(start, n)),
            (0..500u64, len()).prop_map(|(start, n)| Change::Remove(start, n)),
            len().prop_map(Change::Take),
            (len(), 0..500u64, len()).prop_map(|(n, start, len)| Change::TakeOutside(n, start, len)),
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
                // However it came about, it is the same set, in ranges that do not touch.
                prop_assert_eq!(&set, &plain.iter().copied().collect::<TaskSet>());
                let ranges: Vec<_> = set.iter().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert_eq!(set.first(), plain.first().copied());
            }
        }

        #[test]
        fn two_sets_are_joined_as_plain_ones(a in pieces(), b in pieces()) {
            let plain = |pieces: &[(u64, u64)]| pieces.iter().flat_map(|(start, n)| *start..start + n).collect::<BTreeSet<_>>();
            let set = |pieces: &[(u64, u64)]| pieces.iter().map(|(start, n)| (*start, start + n)).collect::<Vec<_>>();
            let (plain_a, plain_b) = (plain(&a), plain(&b));
            let (set_a, set_b) = (TaskSet::from(set(&a)), TaskSet::from(set(&b)));
            let of = |plain: BTreeSet<u64>| plain.into_iter().collect::<TaskSet>();

            prop_assert_eq!(set_a.intersection(&set_b), of(&plain_a & &plain_b));
            let mut all = set_a.clone();
            all.insert_all(&set_b);
            prop_assert_eq!((all.len(), &all), ((&plain_a | &plain_b).len() as u64, &of(&plain_a | &plain_b)));
            let mut rest = set_a.clone();
            rest.remove_all(&set_b);
            prop_assert_eq!((rest.len(), &rest), ((&plain_a - &plain_b).len() as u64, &of(&plain_a - &plain_b)));
        }
    }

    /// Ranges by start and length, more or less full.
    fn pieces() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0..700u64, len()), 0..40)
    }
}
