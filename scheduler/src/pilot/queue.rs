//! The tasks of a job that a pilot has and that have not begun.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    policy::stealing::{
        queues::{Place, ReadyQueues},
        relief::Relief,
    },
    pull::TaskNeeds,
    ranges::TaskSet,
};

#[derive(Clone, Debug)]
pub(super) struct JobQueue {
    pub(super) needs: TaskNeeds,
    pub(super) queued: TaskSet,
    /// Sets of tasks in the order in which they begin, before all others; some tasks may not be queued any
    /// more.
    ranks: VecDeque<TaskSet>,
    /// Queued tasks whose next attempt is not their first, with its number.
    pub(super) tried: BTreeMap<u64, u32>,
    /// Tasks that another pilot gave to this one, some perhaps begun. They may be given again, but are not
    /// sent to the pilot that has their files.
    given: TaskSet,
    /// Tasks that this pilot gave to another.
    gone: TaskSet,
    /// Tasks for which the location of their inputs was requested. They begin only after all others, until it
    /// is known.
    unseen: TaskSet,
    /// Tasks whose input locations are known.
    pub(super) ready: ReadyQueues<u64>,
    /// Limits the queue of tasks that stay with their files.
    pub(super) relief: Option<Relief>,
    /// Moving average of the runtime of its tasks; `None`: none has ended here.
    pub(super) mean_us: Option<u64>,
    /// Whether the manager has said that nothing more of it will come.
    pub(super) is_over: bool,
}

/// A task that begins next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) index: u64,
    /// Number of its attempt.
    pub(super) attempt: u32,
    /// The queue in which it waited; `None`: the location of its files is not known.
    pub(super) place: Option<Place>,
}

impl JobQueue {
    pub(super) fn new(needs: TaskNeeds) -> JobQueue {
        let (queued, ranks, tried) = (TaskSet::new(), VecDeque::new(), BTreeMap::new());
        JobQueue {
            needs,
            queued,
            ranks,
            tried,
            given: TaskSet::new(),
            gone: TaskSet::new(),
            unseen: TaskSet::new(),
            ready: ReadyQueues::new(),
            relief: None,
            mean_us: None,
            is_over: false,
        }
    }

    /// Adds tasks. `is_ranked`: later bundles of the same answer begin later.
    pub(super) fn add(&mut self, tasks: &TaskSet, tried: Vec<(u64, u32)>, is_ranked: bool) {
        // Tasks that came before them begin before them.
        if is_ranked && self.ranks.is_empty() && !self.queued.is_empty() {
            self.ranks.push_back(self.queued.clone());
        }
        if is_ranked || !self.ranks.is_empty() {
            self.ranks.push_back(tasks.clone());
        }
        self.queued.insert_all(tasks);
        self.tried.extend(tried);
    }

    /// Removes those of the tasks that are queued, and returns them.
    pub(super) fn remove(&mut self, tasks: &TaskSet) -> TaskSet {
        let removed = self.queued.intersection(tasks);
        if !removed.is_empty() {
            self.queued.remove_all(&removed);
            self.tried.retain(|index, _| !removed.contains(*index));
            self.ready.retain(|index| !removed.contains(*index));
            self.forget_begun();
        }
        removed
    }

    /// Notes whether these tasks came from another pilot.
    pub(super) fn note_given(&mut self, tasks: &TaskSet, is_given: bool) {
        match is_given {
            true => self.given.insert_all(tasks),
            false => self.given.remove_all(tasks),
        }
    }

    /// Notes that the location of the inputs of these tasks was requested.
    pub(super) fn is_asked_of(&mut self, tasks: &TaskSet) {
        self.unseen.insert_all(tasks);
    }

    /// Notes that the location of the inputs of these tasks is known, or will not be. Returns the tasks that
    /// are still queued.
    pub(super) fn are_seen(&mut self, tasks: &TaskSet) -> TaskSet {
        let seen = self.unseen.intersection(tasks).intersection(&self.queued);
        self.unseen.remove_all(tasks);
        seen
    }

    /// Forgets all input locations once no task is queued.
    fn forget_begun(&mut self) {
        if self.queued.is_empty() {
            self.ready = ReadyQueues::new();
        }
    }

    /// Takes the next task with known input locations that is still queued.
    fn next_ready(&mut self) -> Option<(u64, Place)> {
        loop {
            let (index, place) = self.ready.begin()?;
            if self.queued.remove(index) {
                return Some((index, place));
            }
        }
    }

    /// Notes that these tasks went to another pilot. If they come again, they are not sent to their files.
    pub(super) fn note_gone(&mut self, tasks: &TaskSet) {
        self.gone.insert_all(tasks);
    }

    /// Returns whether a task may be sent to the pilot that has its files.
    pub(super) fn may_go_to_its_files(&self, index: u64) -> bool {
        !self.gone.contains(index) && !self.given.contains(index)
    }

    /// Returns how many tasks may go to another pilot. If some were given and cores are free (`is_idle`), one
    /// stays: otherwise two pilots with too few free cores to begin it would give it to each other for ever.
    pub(super) fn n_may_go(&self, is_idle: bool) -> u64 {
        let is_any_given = is_idle && !self.given.intersection(&self.queued).is_empty();
        self.queued.len() - u64::from(is_any_given)
    }

    /// Takes the next `n` tasks out of the queue.
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

    /// Takes the next `n` tasks out of the queue to begin them, the ones with known input locations first.
    pub(super) fn take_next(&mut self, n: u64) -> Vec<Next> {
        let known = |(index, place)| (index, Some(place));
        let mut taken: Vec<(u64, Option<Place>)> =
            (0..n).map_while(|_| self.next_ready()).map(known).collect();
        let n_more = n.saturating_sub(taken.len() as u64);
        if n_more > 0 {
            let unseen = std::mem::take(&mut self.unseen).intersection(&self.queued);
            self.queued.remove_all(&unseen);
            taken.extend(self.take_first(n_more).indices().map(|index| (index, None)));
            self.queued.insert_all(&unseen);
            self.unseen = unseen;
        }
        self.forget_begun();
        let next = |(index, place)| Next { index, attempt: self.tried.remove(&index).unwrap_or(1), place };
        taken.into_iter().map(next).collect()
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
