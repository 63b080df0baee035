//! Edges one by one: which tasks each task waits for. As text one entry a task, parted by `;`, of runs parted by `,`:
//! how far the first lies before the task itself (or after it: negative), then gaps, each with `+n` where n tasks in
//! a row begin there, or `+n/step` where each lies so far after the one before. A chain is `;1;1;1`, what waits for the
//! hundred before it `100+100`, and what waits for each third of them `100+34/3`.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::ranges::TaskSet;

/// Edges of one dependence at most: 64 MiB of them.
pub const N_EDGES_MAX: u64 = 1 << 24;

/// What each task waits for, ascending. Clones share it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
#[serde(try_from = "String", into = "String")]
pub struct Listed(Arc<Rows>);

/// Rows of numbers, one after the other.
#[derive(PartialEq, Eq, Default, Clone)]
struct Rows {
    /// Where each row begins, and where the last one ends.
    starts: Vec<u32>,
    items: Vec<u32>,
}

/// Why lists or a text of them are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListedError {
    /// Too many of them.
    #[error("found more than {N_EDGES_MAX} edges; give them in several stages, or by a rule like `all`")]
    TooMany,
    /// No such text.
    #[error("found edges that are not written as `;1;2,3+4` in entry {0}")]
    Malformed(usize),
}

impl Rows {
    fn tasks(&self) -> TaskSet {
        TaskSet::from(0..self.starts.len().saturating_sub(1) as u64)
    }

    fn of(&self, row: u64) -> &[u32] {
        let at = |row: usize| self.starts.get(row).map(|start| *start as usize);
        let row = usize::try_from(row).unwrap_or(usize::MAX);
        match (at(row), at(row.saturating_add(1))) {
            (Some(start), Some(end)) => self.items.get(start..end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Adds a row; its items become ascending, each once.
    fn push(&mut self, items: &mut Vec<u32>) -> Result<(), ListedError> {
        items.sort_unstable();
        items.dedup();
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        if (self.items.len() + items.len()) as u64 > N_EDGES_MAX {
            return Err(ListedError::TooMany);
        }
        self.items.append(items);
        self.starts.push(self.items.len() as u32);
        Ok(())
    }
}

impl Listed {
    /// What task 0, 1, … waits for. O(edges).
    pub fn new<I: IntoIterator<Item = u64>>(
        lists: impl IntoIterator<Item = I>,
    ) -> Result<Listed, ListedError> {
        let mut rows = Rows::default();
        let mut row = Vec::new();
        for list in lists {
            for before in list {
                row.push(u32::try_from(before).map_err(|_| ListedError::TooMany)?);
                if row.len() as u64 > N_EDGES_MAX {
                    return Err(ListedError::TooMany);
                }
            }
            rows.push(&mut row)?;
        }
        Ok(Listed(Arc::new(rows)))
    }

    /// What the task waits for, ascending; nothing where nothing is listed.
    pub fn of(&self, task: u64) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.0.of(task).iter().map(|before| u64::from(*before))
    }

    /// The tasks that have a list: none beyond waits for anything, however many there are.
    pub fn tasks(&self) -> TaskSet {
        self.0.tasks()
    }

    /// How many tasks have a list.
    pub fn n_lists(&self) -> u64 {
        self.0.starts.len().saturating_sub(1) as u64
    }

    /// How many edges there are.
    pub fn n_edges(&self) -> u64 {
        self.0.items.len() as u64
    }

    /// The largest index that anything waits for. O(edges).
    pub fn last(&self) -> Option<u64> {
        self.0.items.iter().max().map(|last| u64::from(*last))
    }

    fn read(text: &str) -> Result<Listed, ListedError> {
        let mut rows = Rows::default();
        let mut row = Vec::new();
        for (task, entry) in text.split(';').enumerate() {
            let malformed = || ListedError::Malformed(task);
            let mut next: Option<i64> = None;
            for run in entry.split(',').filter(|run| !run.is_empty()) {
                let (gap, n) = run.split_once('+').unwrap_or((run, "1"));
                let (n, step) = n.split_once('/').unwrap_or((n, "1"));
                let gap: i64 = gap.parse().map_err(|_| malformed())?;
                let n: u32 = n.parse().map_err(|_| malformed())?;
                let step: u32 = step.parse().ok().filter(|step| *step > 0).ok_or_else(malformed)?;
                let first = match next {
                    None => (task as i64).checked_sub(gap),
                    Some(next) => next.checked_add(gap),
                };
                let first = first.and_then(|first| u32::try_from(first).ok()).ok_or_else(malformed)?;
                let length = n.saturating_sub(1).checked_mul(step).map(|length| length + u32::from(n > 0));
                let end = length.and_then(|length| first.checked_add(length)).ok_or_else(malformed)?;
                if u64::from(n) + (rows.items.len() + row.len()) as u64 > N_EDGES_MAX {
                    return Err(ListedError::TooMany);
                }
                row.extend((first..end).step_by(step as usize));
                next = Some(i64::from(end));
            }
            rows.push(&mut row)?;
        }
        Ok(Listed(Arc::new(rows)))
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for task in 0..self.n_lists() {
            if task > 0 {
                write!(f, ";")?;
            }
            let mut rest = self.0.of(task);
            let mut end = None;
            while let Some(first) = rest.first().copied() {
                let step = rest.get(1).map_or(1, |second| second - first);
                let in_a_row = rest.windows(2).take_while(|pair| pair[1] - pair[0] == step).count() + 1;
                let n = if step == 1 || in_a_row > 3 { in_a_row } else { 1 };
                match end {
                    None => write!(f, "{}", task as i64 - i64::from(first))?,
                    Some(end) => write!(f, ",{}", i64::from(first) - end)?,
                }
                match step {
                    _ if n == 1 => {}
                    1 => write!(f, "+{n}")?,
                    step => write!(f, "+{n}/{step}")?,
                }
                end = rest.get(n - 1).map(|last| i64::from(*last) + 1);
                rest = rest.get(n..).unwrap_or_default();
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} edges of {} tasks", self.n_edges(), self.n_lists())
    }
}

impl From<Listed> for String {
    fn from(listed: Listed) -> String {
        listed.to_string()
    }
}

impl TryFrom<String> for Listed {
    type Error = ListedError;

    fn try_from(text: String) -> Result<Listed, ListedError> {
        Listed::read(&text)
    }
}

/// The same the other way round: which tasks wait for each.
#[derive(Clone, Default)]
pub struct Successors(Rows);

impl fmt::Debug for Successors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} edges backwards", self.0.items.len())
    }
}

impl Successors {
    /// Of listed edges, for tasks 0 .. `n_on`. O(edges + n_on).
    pub fn of_listed(listed: &Listed, n_on: u64) -> Successors {
        let n = listed.last().map_or(0, |last| last + 1).min(n_on) as usize;
        let mut starts = vec![0_u32; n + 1];
        for before in &listed.0.items {
            if let Some(count) = starts.get_mut(*before as usize + 1) {
                *count += 1;
            }
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut items = vec![0_u32; starts.last().copied().unwrap_or(0) as usize];
        let mut next = starts.clone();
        for task in 0..listed.n_lists() {
            for before in listed.0.of(task) {
                let Some(at) = next.get_mut(*before as usize).filter(|_| (*before as usize) < n) else {
                    continue;
                };
                items[*at as usize] = task as u32;
                *at += 1;
            }
        }
        Successors(Rows { starts, items })
    }

    /// The tasks that others may wait for.
    pub fn tasks(&self) -> TaskSet {
        self.0.tasks()
    }

    /// The tasks that wait for this one, ascending.
    pub fn of(&self, task: u64) -> impl Iterator<Item = u64> + '_ {
        self.0.of(task).iter().map(|after| u64::from(*after))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Listed, ListedError};

    fn listed(lists: Vec<Vec<u64>>) -> Listed {
        Listed::new(lists).unwrap()
    }

    #[test]
    fn chains_and_fan_ins_are_short_texts() {
        assert_eq!(listed(vec![vec![], vec![0], vec![1], vec![2]]).to_string(), ";1;1;1");
        let mut fan = vec![vec![]; 101];
        fan[100] = (0..100).collect();
        assert_eq!(listed(fan).to_string(), format!("{}100+100", ";".repeat(100)));
        assert_eq!(listed(vec![vec![3, 4, 9], vec![]]).to_string(), "-3+2,4;");
        assert_eq!(listed(vec![vec![0, 3, 6, 9, 12, 20], vec![1, 4, 7]]).to_string(), "0+5/3,7;0,2,2");
        assert_eq!(
            Listed::try_from("0+5/3,7;0,2,2".to_owned()).unwrap(),
            listed(vec![vec![0, 3, 6, 9, 12, 20], vec![1, 4, 7]])
        );
    }

    #[test]
    fn texts_that_mean_nothing_are_refused_with_their_entry() {
        for (text, entry) in [
            ("1", 0),
            (";x", 1),
            (";;2+", 2),
            ("-4294967295+9", 0),
            (";1,1,x", 1),
            ("0+2/0", 0),
            (";0+9/4000000000", 1),
            ("0+2/", 0),
        ] {
            let error = Listed::try_from(text.to_owned()).unwrap_err();
            assert_eq!(error, ListedError::Malformed(entry), "{text}");
        }
        let error = Listed::try_from("0+4000000000".to_owned()).unwrap_err();
        assert_eq!(error, ListedError::TooMany);
    }

    proptest! {
        #[test]
        fn lists_are_read_as_they_are_written(lists in prop::collection::vec(prop::collection::vec(0..50u64, 0..9), 1..30)) {
            let listed = listed(lists.clone());
            let read = Listed::try_from(listed.to_string()).unwrap();
            prop_assert_eq!(&read, &listed);
            for (task, mut list) in lists.into_iter().enumerate() {
                list.sort_unstable();
                list.dedup();
                prop_assert_eq!(read.of(task as u64).collect::<Vec<_>>(), list);
            }
        }
    }
}
