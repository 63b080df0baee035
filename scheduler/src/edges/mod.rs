//! Which tasks wait for which others: between jobs, and within one.
//!
//! Edges by rule cost nothing however many tasks there are; listed ones cost four bytes each in memory.

mod check;
mod listed;

use serde::{Deserialize, Serialize};

pub use self::{
    check::{EdgeProblem, Knot, Shape, check, sizes},
    listed::{Listed, ListedError, N_EDGES_MAX, Successors},
};
use crate::{ids::JobId, ranges::TaskSet};

/// A job's tasks wait for those of another, or for others of their own job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Dependence {
    /// Whose tasks are waited for.
    pub on: JobId,
    /// Which task for which.
    pub edges: Edges,
}

/// Which task waits for which of the job that it comes after.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Edges {
    /// Each for all.
    All,
    /// Each for the one of the same index.
    Same,
    /// Task 0 for the first so many, task 1 for the next so many, …; the last for what is left.
    Groups(u64),
    /// The first so many for task 0, the next so many for task 1, …
    Spread(u64),
    /// Each for those that are listed for it.
    Listed(Listed),
}

/// What becomes of a task when one that it waits for fails for good or is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnFailedDependency {
    /// It is cancelled, and so are those that wait for it.
    #[default]
    Cancel,
    /// It runs once all of them have ended, in whatever way.
    Run,
}

impl OnFailedDependency {
    /// Whether nobody said anything else.
    pub fn is_default(&self) -> bool {
        *self == OnFailedDependency::default()
    }
}

impl Edges {
    /// Tasks, of so many, that wait for any of these; of listed ones by their successors. O(ranges), or O(edges of
    /// these) where they are listed.
    pub fn dependants(&self, of: &TaskSet, n_tasks: u64, successors: Option<&Successors>) -> TaskSet {
        let scaled = |scale: &dyn Fn(u64, u64) -> (u64, u64)| {
            let mut all = TaskSet::new();
            for range in of.iter() {
                let (start, end) = scale(range.start, range.end);
                all.insert_range(start.min(n_tasks)..end.min(n_tasks));
            }
            all
        };
        match self {
            _ if of.is_empty() => TaskSet::new(),
            Edges::All => TaskSet::from(0..n_tasks),
            Edges::Same => scaled(&|start, end| (start, end)),
            Edges::Groups(width) => {
                let width = (*width).max(1);
                scaled(&|start, end| (start / width, end.div_ceil(width)))
            }
            Edges::Spread(width) => {
                scaled(&|start, end| (start.saturating_mul(*width), end.saturating_mul(*width)))
            }
            Edges::Listed(_) => {
                let Some(successors) = successors else { return TaskSet::new() };
                of.intersection(&successors.tasks())
                    .indices()
                    .flat_map(|index| successors.of(index))
                    .collect()
            }
        }
    }

    /// What any of these tasks waits for, of so many. O(ranges), or O(edges of these) where they are listed.
    pub fn predecessors(&self, of: &TaskSet, n_on: u64) -> TaskSet {
        match self {
            _ if of.is_empty() => TaskSet::new(),
            Edges::All => TaskSet::from(0..n_on),
            Edges::Same => Edges::Same.dependants(of, n_on, None),
            Edges::Groups(width) => Edges::Spread(*width).dependants(of, n_on, None),
            Edges::Spread(width) => Edges::Groups(*width).dependants(of, n_on, None),
            Edges::Listed(listed) => {
                of.intersection(&listed.tasks()).indices().flat_map(|index| listed.of(index)).collect()
            }
        }
    }

    /// Those of `among` that wait for any of `on`, which has so many tasks of `n_on`.
    pub fn waiting(&self, among: &TaskSet, on: &TaskSet, n_on: u64) -> TaskSet {
        match self {
            _ if on.is_empty() => TaskSet::new(),
            Edges::All => among.clone(),
            Edges::Listed(listed) => {
                let waits = |index: &u64| listed.of(*index).any(|before| on.contains(before));
                among.intersection(&listed.tasks()).indices().filter(waits).collect()
            }
            Edges::Same | Edges::Groups(_) | Edges::Spread(_) => {
                let held = self.predecessors(among, n_on).intersection(on);
                let end = among.iter().last().map_or(0, |range| range.end);
                self.dependants(&held, end, None).intersection(among)
            }
        }
    }

    /// How many edges there are, between so many tasks and so many that they come after.
    pub fn n_edges(&self, n_tasks: u64, n_on: u64) -> u64 {
        match self {
            Edges::All => n_tasks.saturating_mul(n_on),
            Edges::Same => n_tasks,
            Edges::Groups(_) => n_on,
            Edges::Spread(_) => n_tasks,
            Edges::Listed(listed) => listed.n_edges(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Edges, Listed, Successors};
    use crate::ranges::TaskSet;

    /// What each task waits for, one by one.
    fn plain(edges: &Edges, task: u64, n_on: u64) -> Vec<u64> {
        match edges {
            Edges::All => (0..n_on).collect(),
            Edges::Same => vec![task],
            Edges::Groups(width) => (task * width..n_on.min((task + 1) * width)).collect(),
            Edges::Spread(width) => vec![task / width],
            Edges::Listed(listed) => listed.of(task).collect(),
        }
    }

    fn cases() -> impl Strategy<Value = (Edges, u64, u64)> {
        let listed = (1..40u64, 1..40u64).prop_flat_map(|(n, n_on)| {
            let lists = prop::collection::vec(prop::collection::vec(0..n_on, 0..6), n as usize);
            lists.prop_map(move |lists| (Edges::Listed(Listed::new(lists).unwrap()), n, n_on))
        });
        prop_oneof![
            (1..40u64, 1..40u64).prop_map(|(n, n_on)| (Edges::All, n, n_on)),
            (1..40u64).prop_map(|n| (Edges::Same, n, n)),
            (1..60u64, 1..9u64).prop_map(|(n_on, width)| (Edges::Groups(width), n_on.div_ceil(width), n_on)),
            (1..20u64, 1..9u64).prop_map(|(n_on, width)| (Edges::Spread(width), n_on * width, n_on)),
            listed,
        ]
    }

    proptest! {
        #[test]
        fn edges_by_rule_are_what_they_would_be_one_by_one((edges, n, n_on) in cases(), bits: u64, more: u64) {
            let some = |bits: u64, n: u64| (0..n).filter(|i| bits >> (i % 64) & 1 == 1).collect::<TaskSet>();
            let (on, among) = (some(bits, n_on), some(more, n));
            let waits = |task: &u64| plain(&edges, *task, n_on).iter().any(|p| on.contains(*p));
            let expected: TaskSet = (0..n).filter(waits).collect();
            let successors = match &edges {
                Edges::Listed(listed) => Some(Successors::of_listed(listed, n_on)),
                _ => None,
            };
            prop_assert_eq!(edges.dependants(&on, n, successors.as_ref()), expected.clone());
            prop_assert_eq!(edges.waiting(&among, &on, n_on), expected.intersection(&among));
            let before: TaskSet = among.indices().flat_map(|task| plain(&edges, task, n_on)).collect();
            prop_assert_eq!(edges.predecessors(&among, n_on), before);
            let n_edges: usize = (0..n).map(|task| plain(&edges, task, n_on).len()).sum();
            prop_assert_eq!(edges.n_edges(n, n_on), n_edges as u64);
        }
    }
}
