//! The pilots, nodes and platforms on which each task has failed, so that its next attempt runs elsewhere;
//! and the outcomes of attempts on each pilot and node.

use std::collections::BTreeMap;

use crate::{
    ids::{PilotId, PlatformId},
    ranges::TaskSet,
};

/// Number of pilots that are kept as places where a task failed, the last ones.
const N_PLACES_MAX: usize = 8;

/// Number of attempts that count for an error rate: older ones count less and less.
const MEMORY: f64 = 20.0;

/// A node of a platform on which a pilot has been, numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

/// The place where a pilot runs. A node belongs to one platform: two platforms on one host have a node each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The pilot.
    pub pilot: PilotId,
    /// Its node.
    pub node: NodeId,
    /// Its platform.
    pub platform: PlatformId,
}

/// The outcomes of attempts on a pilot or node.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Fortune {
    /// Number of failures of programs or of the node since the last success.
    pub n_in_a_row: u32,
    /// Number of tasks that failed here since the last success and have succeeded elsewhere.
    pub n_done_elsewhere: u32,
    /// Numbers of attempts and of failed ones; recent ones count more.
    tries: f64,
    losses: f64,
}

impl Fortune {
    /// Takes in the attempts of a report.
    pub fn learn(&mut self, n_done: u64, n_failed: u64) {
        self.count(n_done, n_failed);
        if n_done > 0 {
            (self.n_in_a_row, self.n_done_elsewhere) = (0, 0);
        } else {
            let n_failed = u32::try_from(n_failed).unwrap_or(u32::MAX);
            self.n_in_a_row = self.n_in_a_row.saturating_add(n_failed);
        }
    }

    /// Counts attempts for the error rate only.
    pub fn count(&mut self, n_done: u64, n_failed: u64) {
        let kept = MEMORY / self.tries.max(MEMORY);
        self.tries = self.tries * kept + (n_done + n_failed) as f64;
        self.losses = self.losses * kept + n_failed as f64;
    }

    /// Returns the part of the last attempts that failed, 0 to 1; `None` before the first.
    pub fn error_rate(&self) -> Option<f64> {
        (self.tries > 0.0).then(|| self.losses / self.tries)
    }
}

/// The nodes on which pilots have been.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Nodes {
    ids: BTreeMap<(PlatformId, String), NodeId>,
    fortunes: Vec<Fortune>,
}

impl Nodes {
    /// Returns the node of that name; a new one if no pilot has been there.
    pub(in crate::engine) fn known(&mut self, platform: PlatformId, hostname: &str) -> NodeId {
        let next = NodeId(u32::try_from(self.fortunes.len()).unwrap_or(u32::MAX));
        let id = *self.ids.entry((platform, hostname.to_owned())).or_insert(next);
        if id == next {
            self.fortunes.push(Fortune::default());
        }
        id
    }

    /// Returns the outcomes of attempts on the node, by all pilots.
    pub fn fortune(&self, id: NodeId) -> Fortune {
        self.fortunes.get(id.0 as usize).copied().unwrap_or_default()
    }

    pub(in crate::engine) fn fortune_mut(&mut self, id: NodeId) -> Option<&mut Fortune> {
        self.fortunes.get_mut(id.0 as usize)
    }
}

/// Open tasks of a job by the places where they have failed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FailedAt {
    by_pilot: BTreeMap<PilotId, TaskSet>,
    by_node: BTreeMap<NodeId, TaskSet>,
    by_platform: BTreeMap<PlatformId, TaskSet>,
}

impl FailedAt {
    /// Returns whether no open task has failed anywhere.
    pub fn is_empty(&self) -> bool {
        self.by_platform.is_empty()
    }

    /// Returns the open tasks that have failed on the platform.
    pub fn on_platform(&self, id: PlatformId) -> Option<&TaskSet> {
        self.by_platform.get(&id)
    }

    /// Returns the open tasks that have failed on the node.
    pub fn on_node(&self, id: NodeId) -> Option<&TaskSet> {
        self.by_node.get(&id)
    }

    /// Returns the open tasks that have failed on the pilot.
    pub fn at_pilot(&self, id: PilotId) -> Option<&TaskSet> {
        self.by_pilot.get(&id)
    }

    /// Returns all open tasks that have failed.
    pub fn all(&self) -> TaskSet {
        let mut all = TaskSet::new();
        self.by_platform.values().for_each(|tasks| all.insert_all(tasks));
        all
    }

    /// Notes that the task has failed at `place`. `places`: where it failed before, oldest first.
    pub(in crate::engine) fn note(&mut self, index: u64, place: Place, places: &mut Vec<Place>) {
        places.retain(|known| known.pilot != place.pilot);
        places.push(place);
        self.by_pilot.entry(place.pilot).or_default().insert(index);
        self.by_node.entry(place.node).or_default().insert(index);
        self.by_platform.entry(place.platform).or_default().insert(index);
        if places.len() > N_PLACES_MAX {
            let oldest = places.remove(0);
            self.drop_place(index, oldest, places);
        }
    }

    /// Forgets the places of a task that has ended or starts anew.
    pub(in crate::engine) fn forget(&mut self, index: u64, places: &mut Vec<Place>) {
        while let Some(place) = places.pop() {
            self.drop_place(index, place, places);
        }
    }

    /// Forgets one place of a task that has also failed at the other places.
    fn drop_place(&mut self, index: u64, place: Place, others: &[Place]) {
        remove(&mut self.by_pilot, place.pilot, index);
        if !others.iter().any(|other| other.node == place.node) {
            remove(&mut self.by_node, place.node, index);
        }
        if !others.iter().any(|other| other.platform == place.platform) {
            remove(&mut self.by_platform, place.platform, index);
        }
    }
}

fn remove<K: Ord>(sets: &mut BTreeMap<K, TaskSet>, key: K, index: u64) {
    let Some(tasks) = sets.get_mut(&key) else { return };
    tasks.remove(index);
    if tasks.is_empty() {
        sets.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pilot: u64, node: u32, platform: u64) -> Place {
        Place { pilot: PilotId(pilot), node: NodeId(node), platform: PlatformId(platform) }
    }

    #[test]
    fn a_task_that_failed_at_many_pilots_is_known_at_the_last_ones() {
        let (mut failed, mut places) = (FailedAt::default(), Vec::new());
        (1..=20).for_each(|pilot| failed.note(7, place(pilot, 0, 1), &mut places));
        let known: Vec<u64> = failed.by_pilot.keys().map(|pilot| pilot.0).collect();
        assert_eq!(known, (13..=20).collect::<Vec<_>>());
        assert!(failed.on_node(NodeId(0)).is_some_and(|tasks| tasks.contains(7)));
        failed.forget(7, &mut places);
        assert_eq!((failed.is_empty(), failed, places), (true, FailedAt::default(), Vec::new()));
    }

    #[test]
    fn the_last_attempts_make_the_error_rate_and_a_success_ends_a_row() {
        let mut fortune = Fortune::default();
        assert_eq!(fortune.error_rate(), None);
        fortune.learn(0, 12);
        assert_eq!((fortune.error_rate(), fortune.n_in_a_row), (Some(1.0), 12));
        fortune.learn(20, 0);
        assert_eq!(fortune.n_in_a_row, 0);
        assert!(fortune.error_rate().is_some_and(|rate| rate < 0.5), "{fortune:?}");
    }
}
