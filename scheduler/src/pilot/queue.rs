//! What a pilot has of a job that has not begun.

use std::collections::{BTreeMap, VecDeque};

use crate::{pull::TaskNeeds, ranges::TaskSet};

#[derive(Clone, Debug)]
pub(super) struct JobQueue {
    pub(super) needs: TaskNeeds,
    pub(super) queued: TaskSet,
    /// Tasks that are to begin before others, set after set; some may not be queued any more.
    ranks: VecDeque<TaskSet>,
    /// Queued tasks whose next attempt is not their first, and its number.
    pub(super) tried: BTreeMap<u64, u32>,
    /// How long its tasks take, the latest counting most; `None`: none has ended here.
    pub(super) mean_us: Option<u64>,
    /// The manager has said that nothing more of it will come.
    pub(super) is_over: bool,
}

impl JobQueue {
    pub(super) fn new(needs: TaskNeeds) -> JobQueue {
        let (queued, ranks, tried) = (TaskSet::new(), VecDeque::new(), BTreeMap::new());
        JobQueue { needs, queued, ranks, tried, mean_us: None, is_over: false }
    }

    /// `is_ranked`: what comes later of the same answer begins later.
    pub(super) fn add(&mut self, tasks: &TaskSet, tried: Vec<(u64, u32)>, is_ranked: bool) {
        // Who came before them begins before them.
        if is_ranked && self.ranks.is_empty() && !self.queued.is_empty() {
            self.ranks.push_back(self.queued.clone());
        }
        if is_ranked || !self.ranks.is_empty() {
            self.ranks.push_back(tasks.clone());
        }
        self.queued.insert_all(tasks);
        self.tried.extend(tried);
    }

    /// Those that are to begin next; nothing is queued of them any more.
    pub(super) fn take_first(&mut self, n: u64) -> TaskSet {
        let mut taken = TaskSet::new();
        while taken.len() < n
            && let Some(rank) = self.ranks.front_mut()
        {
            let first = rank.intersection(&self.queued).take_first(n - taken.len());
            self.queued.remove_all(&first);
            rank.remove_all(&first);
            taken.insert_all(&first);
            if rank.intersection(&self.queued).is_empty() {
                self.ranks.pop_front();
            }
        }
        taken.insert_all(&self.queued.take_first(n - taken.len()));
        taken
    }

    /// Those that are to begin next, each with the number of its attempt.
    pub(super) fn take_with_attempts(&mut self, n: u64) -> Vec<(u64, u32)> {
        let taken = self.take_first(n);
        taken.indices().map(|index| (index, self.tried.remove(&index).unwrap_or(1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{JobQueue, TaskSet};
    use crate::{pull::TaskNeeds, resources::Resources};

    #[test]
    fn ranks_begin_one_after_the_other_and_what_is_gone_is_left_out() {
        let needs = TaskNeeds {
            resources: Resources::cores(1),
            time_limit: None,
            success_codes: vec![0],
            ..TaskNeeds::default()
        };
        let mut queue = JobQueue::new(needs);
        queue.add(&TaskSet::from(0..1), vec![], false);
        queue.add(&TaskSet::from(7..10), vec![], true);
        queue.add(&TaskSet::from(3..5), vec![], true);
        queue.queued.remove(8);
        queue.add(&TaskSet::from(1..2), vec![], false);
        assert_eq!(queue.take_first(2).to_string(), "0,7");
        assert_eq!(queue.take_first(2).to_string(), "3,9");
        assert_eq!(queue.take_first(1).to_string(), "4");
        assert_eq!(queue.take_first(9).to_string(), "1");
        assert!(queue.queued.is_empty() && queue.ranks.is_empty());
    }
}
