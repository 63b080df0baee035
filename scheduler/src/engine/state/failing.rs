//! Jobs whose tasks fail everywhere. The runtime of their successes is unknown, as there are none, but the
//! failures show how long a task uses a slot: pilots prefetch as many tasks as they would if the tasks
//! succeeded.
//!
//! Failures on one node among several may be the node's fault. They do not count here, so a node that fails
//! all tasks gets only as many as it can start at once.

use crate::{
    engine::{
        record::{FailedAttempt, Totals},
        state::places::NodeId,
    },
    results::Blame,
    time::Span,
};

/// Returns whether the failure says something about the pilot's node or the program.
pub(in crate::engine) fn is_of_place(failure: &FailedAttempt) -> bool {
    matches!(failure.kind.blame(), Blame::Program | Blame::Node)
}

/// Number of nodes on which a job's tasks must have failed to fail everywhere, unless there are fewer nodes.
pub(in crate::engine) const N_NODES: usize = 4;

/// The attempts of a job that failed because of the program.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Failing {
    /// Number of attempts, without those that had not started.
    n: u64,
    /// The sum of their runtimes, in microseconds.
    wall_us: u64,
    /// The first nodes on which they failed.
    nodes: Vec<NodeId>,
    is_everywhere: bool,
}

impl Failing {
    /// Counts failures on a node. `n_nodes`: number of nodes, including those that are to come.
    pub(in crate::engine) fn note(&mut self, node: NodeId, failures: &[FailedAttempt], n_nodes: usize) {
        let has_begun = |failure: &&FailedAttempt| failure.usage.wall_us > 0;
        let of_program = failures.iter().filter(|failure| failure.kind.blame() == Blame::Program);
        let mut is_any = false;
        for failure in of_program.filter(has_begun) {
            is_any = true;
            self.n += 1;
            self.wall_us = self.wall_us.saturating_add(failure.usage.wall_us);
        }
        if !is_any {
            return;
        }
        if self.nodes.len() < N_NODES && !self.nodes.contains(&node) {
            self.nodes.push(node);
        }
        self.is_everywhere = self.nodes.len() >= N_NODES || self.nodes.len() >= n_nodes;
    }

    /// Returns the mean runtime of attempts, successes included, if most attempts fail and do so everywhere.
    pub(in crate::engine) fn wall_mean(&self, successes: &Totals) -> Option<Span> {
        let all_us = self.wall_us.saturating_add(successes.wall_us);
        let is_most = self.is_everywhere && self.n > successes.n;
        is_most.then(|| Span(all_us / self.n.saturating_add(successes.n).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::record::Verdict,
        results::{FailureKind, Usage},
    };

    fn failures(n: u64, kind: &FailureKind, wall_us: u64) -> Vec<FailedAttempt> {
        let usage = Usage { wall_us, ..Usage::default() };
        let failed =
            |index| FailedAttempt { index, attempt: 1, kind: kind.clone(), usage, verdict: Verdict::Final };
        (0..n).map(failed).collect()
    }

    #[test]
    fn failures_say_how_long_attempts_take_once_they_are_everywhere_and_the_most() {
        let exit = FailureKind::Exit { code: 1 };
        let none = Totals::default();
        let mut failing = Failing::default();
        failing.note(NodeId(0), &failures(10, &exit, 1000), 2);
        assert_eq!(failing.wall_mean(&none), None, "it may be the node");
        failing.note(NodeId(0), &failures(10, &exit, 1000), 2);
        assert_eq!(failing.wall_mean(&none), None, "it is still one of two");
        failing.note(NodeId(1), &failures(20, &exit, 3000), 2);
        assert_eq!(failing.wall_mean(&none), Some(Span(2000)));
        let some = Totals { n: 10, wall_us: 40_000, ..Totals::default() };
        assert_eq!(failing.wall_mean(&some), Some(Span(2400)));
        assert_eq!(failing.wall_mean(&Totals { n: 40, ..some }), None, "most succeed");
        failing.note(NodeId(1), &failures(1, &exit, 3000), 3);
        assert_eq!(failing.wall_mean(&none), None, "a node has come that may do better");
    }

    #[test]
    fn failures_on_four_nodes_are_everywhere_and_those_of_nodes_and_of_nothing_begun_do_not_count() {
        let exit = FailureKind::Exit { code: 1 };
        let none = Totals::default();
        let mut failing = Failing::default();
        (0..3).for_each(|node| failing.note(NodeId(node), &failures(1, &exit, 5), 100));
        assert_eq!(failing.wall_mean(&none), None);
        failing.note(NodeId(3), &failures(1, &exit, 0), 100);
        failing.note(NodeId(3), &failures(1, &FailureKind::Node { what: "full".into() }, 9), 100);
        assert_eq!(failing.wall_mean(&none), None);
        failing.note(NodeId(3), &failures(1, &exit, 5), 100);
        assert_eq!(failing.wall_mean(&none), Some(Span(5)));
    }
}
