//! A job's ready tasks by their estimates, for bundles that are packed by estimates. Kept only while there
//! are such bundles.

use std::collections::BTreeSet;

use crate::{
    estimates::{TaskEstimates, in_units},
    policy::bundling::by_estimate::{BinPacking, Taker, Waiting},
    ranges::TaskSet,
};

/// The most sets of tasks of a bundle that start one after the other.
pub(in crate::engine) const N_RANKS_MAX: usize = 4;

/// The ready tasks of a job by their estimates. O(tasks) of memory: 8 bytes each.
#[derive(Clone, Debug)]
pub struct ReadyByEstimate {
    estimates: TaskEstimates,
    /// The distinct estimates, smallest first.
    classes: Vec<Class>,
    /// All tasks, grouped by class and ordered by index within it.
    order: Vec<u64>,
    /// Classes with ready tasks.
    open: BTreeSet<usize>,
    /// The estimates of all ready tasks together, in millionths.
    work: u128,
}

/// Tasks of equal estimates.
#[derive(Clone, Debug)]
struct Class {
    millionths: u64,
    /// The range of its tasks in the order.
    start: usize,
    end: usize,
    /// No task before this position is ready, except those in `back`.
    from: usize,
    /// Positions of tasks that became ready again; some may have been taken since.
    back: BTreeSet<usize>,
    n_ready: u64,
}

impl ReadyByEstimate {
    /// Returns the ready tasks of a job with `n_tasks` tasks. O(n log n).
    pub fn new(estimates: &TaskEstimates, n_tasks: u64, ready: &TaskSet) -> ReadyByEstimate {
        let mut sorted: Vec<(u64, u64)> =
            (0..n_tasks).map(|index| (estimates.millionths(index), index)).collect();
        sorted.sort_unstable();
        let (mut end, mut work) = (0, 0);
        let class = |equal: &[(u64, u64)]| {
            let start = end;
            end += equal.len();
            let millionths = equal[0].0;
            let n_ready = equal.iter().filter(|(_, index)| ready.contains(*index)).count() as u64;
            work += u128::from(millionths) * u128::from(n_ready);
            Class { millionths, start, end, from: start, back: BTreeSet::new(), n_ready }
        };
        let classes: Vec<Class> = sorted.chunk_by(|a, b| a.0 == b.0).map(class).collect();
        let order = sorted.into_iter().map(|(_, index)| index).collect();
        let open = (0..classes.len()).filter(|place| classes[*place].n_ready > 0).collect();
        ReadyByEstimate { estimates: estimates.clone(), classes, order, open, work }
    }

    /// Adds tasks that have become ready.
    pub fn add(&mut self, tasks: &TaskSet) {
        for index in tasks.indices() {
            let place = self.place_of(index);
            let class = &mut self.classes[place];
            let at = self.order[class.start..class.end].partition_point(|other| *other < index);
            if class.start + at < class.from {
                class.back.insert(class.start + at);
            }
            class.n_ready += 1;
            self.work += u128::from(class.millionths);
            self.open.insert(place);
        }
    }

    /// Removes tasks that are no longer ready.
    pub fn remove(&mut self, tasks: &TaskSet) {
        for index in tasks.indices() {
            self.less(self.place_of(index));
        }
    }

    /// Returns whether a new instance for these ready tasks would be equal. O(ready × log classes).
    pub fn is_of(&self, estimates: &TaskEstimates, ready: &TaskSet) -> bool {
        let mut n_ready = vec![0; self.classes.len()];
        let mut work = 0;
        for index in ready.indices() {
            let (place, millionths) = (self.place_of(index), estimates.millionths(index));
            if self.classes.get(place).is_none_or(|class| class.millionths != millionths) {
                return false;
            }
            n_ready[place] += 1;
            work += u128::from(millionths);
        }
        let counts = self.classes.iter().map(|class| class.n_ready);
        let open = (0..n_ready.len()).filter(|place| n_ready[*place] > 0);
        self.work == work && counts.eq(n_ready.iter().copied()) && self.open.iter().copied().eq(open)
    }

    /// Takes up to `n_left` ready tasks that are not excluded, and returns them by rank: tasks that start
    /// first, then others.
    pub(in crate::engine) fn pack(
        &mut self,
        ready: &mut TaskSet,
        excluded: &TaskSet,
        taker: &Taker,
        n_left: u64,
    ) -> Vec<TaskSet> {
        let mut taking = Taking { by_size: self, ready, excluded, n_left };
        let mut taken: Vec<TaskSet> = Vec::new();
        for packed in BinPacking::default().pack(&mut taking, taker) {
            let rank = (packed.rank as usize).min(N_RANKS_MAX - 1);
            taken.resize_with(taken.len().max(rank + 1), TaskSet::new);
            taken[rank].insert(packed.task);
        }
        taken
    }

    fn place_of(&self, index: u64) -> usize {
        let millionths = self.estimates.millionths(index);
        self.classes.partition_point(|class| class.millionths < millionths)
    }

    fn less(&mut self, place: usize) {
        let class = &mut self.classes[place];
        class.n_ready = class.n_ready.saturating_sub(1);
        self.work = self.work.saturating_sub(class.millionths.into());
        if class.n_ready == 0 {
            self.open.remove(&place);
        }
    }
}

impl Class {
    /// Returns the first task of the class that is ready and not excluded.
    fn first(&mut self, order: &[u64], ready: &TaskSet, excluded: &TaskSet) -> Option<u64> {
        while let Some(first) = self.back.first().filter(|at| !ready.contains(order[**at])) {
            let first = *first;
            self.back.remove(&first);
        }
        while self.from < self.end && !ready.contains(order[self.from]) {
            self.from += 1;
        }
        let mut all = self.back.iter().copied().chain(self.from..self.end).map(|at| order[at]);
        all.find(|index| ready.contains(*index) && !excluded.contains(*index))
    }
}

/// Takes ready tasks by estimate out of both sets.
pub(in crate::engine) struct Taking<'a> {
    by_size: &'a mut ReadyByEstimate,
    ready: &'a mut TaskSet,
    /// Tasks that must not be taken.
    excluded: &'a TaskSet,
    /// Number of tasks that may still be taken.
    n_left: u64,
}

impl Waiting for Taking<'_> {
    type Task = u64;

    fn largest(&self) -> Option<f64> {
        self.by_size.open.last().map(|place| in_units(self.by_size.classes[*place].millionths))
    }

    fn largest_ever(&self) -> f64 {
        self.by_size.classes.last().map_or(0.0, |class| in_units(class.millionths))
    }

    fn work(&self) -> f64 {
        self.by_size.work as f64 / 1e6
    }

    fn take_at_most(&mut self, bound: f64) -> Option<(f64, u64)> {
        if self.n_left == 0 {
            return None;
        }
        let classes = &self.by_size.classes;
        // Rounding must not exclude a task that just fits; estimates are whole millionths.
        let n_fitting = classes.partition_point(|class| in_units(class.millionths) <= bound + 1e-9);
        let mut end = n_fitting;
        while let Some(place) = self.by_size.open.range(..end).next_back().copied() {
            end = place;
            let class = &mut self.by_size.classes[place];
            let Some(index) = class.first(&self.by_size.order, self.ready, self.excluded) else { continue };
            let estimate = in_units(class.millionths);
            self.ready.remove(index);
            self.by_size.less(place);
            self.n_left -= 1;
            return Some((estimate, index));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ReadyByEstimate, Taking};
    use crate::{estimates::TaskEstimates, policy::bundling::by_estimate::Waiting, ranges::TaskSet};

    fn taking<'a>(
        by_size: &'a mut ReadyByEstimate,
        ready: &'a mut TaskSet,
        excluded: &'a TaskSet,
    ) -> Taking<'a> {
        Taking { by_size, ready, excluded, n_left: u64::MAX }
    }

    #[test]
    fn the_largest_that_fits_goes_and_of_equal_ones_the_first() {
        let estimates = TaskEstimates::new(1, [3.0, 9.0, 1.0, 9.0]).unwrap();
        let mut ready = TaskSet::from(0..4);
        let mut by_size = ReadyByEstimate::new(&estimates, 4, &ready);
        let nothing = TaskSet::new();
        let mut all = taking(&mut by_size, &mut ready, &nothing);
        assert_eq!((all.largest(), all.work()), (Some(9.0), 22.0));
        assert_eq!(all.take_at_most(100.0), Some((9.0, 1)));
        assert_eq!(all.take_at_most(8.0), Some((3.0, 0)));
        assert_eq!(all.take_at_most(0.5), None);
        by_size.add(&TaskSet::from(1..2));
        ready.insert(1);
        let first = TaskSet::from(1..2);
        assert_eq!(
            taking(&mut by_size, &mut ready, &first).take_at_most(9.0),
            Some((9.0, 3)),
            "not that one"
        );
        assert_eq!(taking(&mut by_size, &mut ready, &nothing).take_at_most(9.0), Some((9.0, 1)));
        assert_eq!(taking(&mut by_size, &mut ready, &nothing).work(), 1.0);
    }

    proptest! {
        #[test]
        fn it_is_as_if_all_ready_tasks_were_looked_at(
            estimates in prop::collection::vec(0..6_u32, 1..40),
            steps in prop::collection::vec((0..8_u32, 0..40_u64), 0..80),
        ) {
            let n = estimates.len() as u64;
            let of = TaskEstimates::new(1, estimates.iter().map(|one| f64::from(*one))).unwrap();
            let mut ready = TaskSet::from(0..n);
            let mut by_size = ReadyByEstimate::new(&of, n, &ready);
            let nothing = TaskSet::new();
            for (bound, index) in steps {
                let index = index % n;
                if bound > 5 && !ready.contains(index) {
                    ready.insert(index);
                    by_size.add(&TaskSet::from(index..index + 1));
                    continue;
                }
                let best = ready.indices().filter(|one| estimates[*one as usize] <= bound);
                let best = best.max_by_key(|one| (estimates[*one as usize], std::cmp::Reverse(*one)));
                let found = taking(&mut by_size, &mut ready, &nothing).take_at_most(f64::from(bound));
                prop_assert_eq!(found.map(|(_, index)| index), best);
            }
            let work: u32 = ready.indices().map(|one| estimates[one as usize]).sum();
            prop_assert_eq!(taking(&mut by_size, &mut ready, &nothing).work(), f64::from(work));
        }
    }
}
