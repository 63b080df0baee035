//! What a pilot has of a job that has not begun.

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
    /// Tasks that are to begin before others, set after set; some may not be queued any more.
    ranks: VecDeque<TaskSet>,
    /// Queued tasks whose next attempt is not their first, and its number.
    pub(super) tried: BTreeMap<u64, u32>,
    /// Tasks that another pilot gave to this one, some perhaps begun. They may be given on, but are not sent to who
    /// has their files.
    given: TaskSet,
    /// Tasks that this one gave to another.
    gone: TaskSet,
    /// Tasks of which it is asked who has what they read; none of them begins before that is known.
    unseen: TaskSet,
    /// Tasks of which that is known, by what they read.
    pub(super) ready: ReadyQueues<u64>,
    /// How long those may be that stay with their files.
    pub(super) relief: Option<Relief>,
    /// How long its tasks take, the latest counting most; `None`: none has ended here.
    pub(super) mean_us: Option<u64>,
    /// The manager has said that nothing more of it will come.
    pub(super) is_over: bool,
}

/// A task that is to begin next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) index: u64,
    /// The number of its attempt.
    pub(super) attempt: u32,
    /// Where it waited; `None`: it is not known where its files are.
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

    /// Those of the tasks that are queued; nothing is known of them any more.
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

    /// These have come from another pilot, or from nobody.
    pub(super) fn note_given(&mut self, tasks: &TaskSet, is_given: bool) {
        match is_given {
            true => self.given.insert_all(tasks),
            false => self.given.remove_all(tasks),
        }
    }

    /// It is asked who has what these read.
    pub(super) fn is_asked_of(&mut self, tasks: &TaskSet) {
        self.unseen.insert_all(tasks);
    }

    /// That is known of these, or will not be; gives those that are still queued.
    pub(super) fn are_seen(&mut self, tasks: &TaskSet) -> TaskSet {
        let seen = self.unseen.intersection(tasks).intersection(&self.queued);
        self.unseen.remove_all(tasks);
        seen
    }

    /// Of what is not queued any more nothing need be known.
    fn forget_begun(&mut self) {
        if self.queued.is_empty() {
            self.ready = ReadyQueues::new();
        }
    }

    /// The next of those whose files are known that is still queued.
    fn next_ready(&mut self) -> Option<(u64, Place)> {
        loop {
            let (index, place) = self.ready.begin()?;
            if self.queued.remove(index) {
                return Some((index, place));
            }
        }
    }

    /// These went to another pilot. Should they come again, that one could not have them.
    pub(super) fn note_gone(&mut self, tasks: &TaskSet) {
        self.gone.insert_all(tasks);
    }

    /// Whether a task may be sent to who has its files.
    pub(super) fn may_go_to_its_files(&self, index: u64) -> bool {
        !self.gone.contains(index) && !self.given.contains(index)
    }

    /// How many may go to another pilot. Where some have been given and cores are free (`is_idle`), one stays: two that
    /// have too few free to begin it would else give it to each other for ever.
    pub(super) fn n_may_go(&self, is_idle: bool) -> u64 {
        let is_any_given = is_idle && !self.given.intersection(&self.queued).is_empty();
        self.queued.len() - u64::from(is_any_given)
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

    /// Those that are to begin next.
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
