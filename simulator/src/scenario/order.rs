//! Dependencies of past jobs. Tasks that are not replayed leave gaps, so the replayed ones are renumbered.

use scheduler::{
    edges::{Edges, Listed},
    estimates::TaskEstimates,
    ids::JobId,
    ranges::TaskSet,
};

/// The workflow of a past job, and its dependencies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Order {
    /// The workflow, whose jobs are submitted together; `None`: the job was submitted alone.
    pub workflow: Option<JobId>,
    /// The past jobs (by position) for which it waits, with the rule for pairs of tasks.
    pub after: Vec<(usize, Edges)>,
}

impl Order {
    /// Returns whether it waits for nothing and was submitted alone.
    pub(super) fn is_none(&self) -> bool {
        self.workflow.is_none() && self.after.is_empty()
    }
}

/// The tasks of a job that are replayed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kept {
    All,
    /// These tasks, ascending.
    Some(Vec<u64>),
}

impl Kept {
    /// Makes it from the indices of the replayed tasks, of `n_tasks` tasks.
    pub(super) fn of(indices: impl ExactSizeIterator<Item = u64>, n_tasks: u64) -> Kept {
        match indices.len() as u64 == n_tasks {
            true => Kept::All,
            false => Kept::Some(indices.collect()),
        }
    }

    /// Returns the new number of a task.
    fn place(&self, index: u64) -> Option<u64> {
        match self {
            Kept::All => Some(index),
            Kept::Some(indices) => indices.binary_search(&index).ok().map(|place| place as u64),
        }
    }

    /// Returns the estimates of these tasks.
    pub(super) fn estimates(&self, estimates: &TaskEstimates) -> Option<TaskEstimates> {
        match self {
            Kept::All => Some(estimates.clone()),
            Kept::Some(indices) => estimates.of_tasks(indices.iter().copied()),
        }
    }
}

/// Returns the edges between jobs of which only some tasks are left; `None`: there are too many.
pub(super) fn edges(edges: &Edges, (own, n_tasks): (&Kept, u64), (on, n_on): (&Kept, u64)) -> Option<Edges> {
    let indices = match (own, on, edges) {
        (Kept::All, Kept::All, _) | (_, _, Edges::All) => return Some(edges.clone()),
        (Kept::Some(indices), ..) => indices.clone(),
        (Kept::All, ..) => (0..n_tasks).collect(),
    };
    let list = |index: u64| -> Vec<u64> {
        let before = edges.predecessors(&TaskSet::from(index..index + 1), n_on);
        before.indices().filter_map(|before| on.place(before)).collect()
    };
    Listed::new(indices.into_iter().map(list)).ok().map(Edges::Listed)
}

#[cfg(test)]
mod tests {
    use super::{Edges, Kept, Listed, edges};

    #[test]
    fn edges_go_on_between_the_tasks_that_are_left() {
        let (all, some) = (Kept::All, |indices: &[u64]| Kept::Some(indices.to_vec()));
        let listed = |lists: &[&[u64]]| {
            Edges::Listed(Listed::new(lists.iter().map(|list| list.iter().copied())).unwrap())
        };
        assert_eq!(edges(&Edges::Same, (&all, 3), (&all, 3)), Some(Edges::Same));
        assert_eq!(edges(&Edges::All, (&some(&[1]), 3), (&some(&[2]), 3)), Some(Edges::All));
        // Each task of 0, 1, 2, 3 waits for the one of its index; of those, 1 and 2 are left.
        let same = edges(&Edges::Same, (&all, 4), (&some(&[1, 2]), 4));
        assert_eq!(same, Some(listed(&[&[], &[0], &[1], &[]])));
        let groups = edges(&Edges::Groups(2), (&some(&[1, 2]), 3), (&some(&[0, 2, 3, 5]), 6));
        assert_eq!(groups, Some(listed(&[&[1, 2], &[3]])));
        let spread = edges(&Edges::Spread(2), (&some(&[1, 2, 3]), 4), (&some(&[1]), 2));
        assert_eq!(spread, Some(listed(&[&[], &[0], &[0]])));
    }
}
