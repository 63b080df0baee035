//! Nodes that ask at the same instant: who is served first.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{ByApplication, Importance, Open, Score};

/// Nodes that have asked and are not served yet. The best pair of a node and an application with tasks is
/// next; of equal ones the lowest node, then the lowest application.
#[derive(Debug)]
pub struct Requests<'a> {
    policy: ByApplication,
    importance: &'a Importance,
    /// Each node with the application that it chose when it was last looked at.
    best: BinaryHeap<(Score, Reverse<usize>, Reverse<usize>)>,
}

impl<'a> Requests<'a> {
    /// Of these nodes, at an instant at which these applications have tasks; applications in ascending order.
    /// O(nodes × applications).
    ///
    /// # Panics
    /// There is no such application or node.
    pub fn new(
        policy: ByApplication,
        importance: &'a Importance,
        nodes: impl IntoIterator<Item = usize>,
        open: &[Open],
    ) -> Requests<'a> {
        let mut requests = Requests { policy, importance, best: BinaryHeap::new() };
        for node in nodes {
            requests.enter(node, open);
        }
        requests
    }

    fn enter(&mut self, node: usize, open: &[Open]) {
        if let Some(application) = self.policy.choose(self.importance, node, open) {
            let score = self.policy.score(self.importance, application, node);
            self.best.push((score, Reverse(node), Reverse(application)));
        }
    }

    /// The next (application, node) to be served; `None` when no node or no application is left.
    ///
    /// `open`: applications that still have tasks; of those of the last time, as within an instant none comes
    /// back. O(log nodes), and O(applications) for a node whose application has run out meanwhile.
    pub fn next(&mut self, open: &[Open]) -> Option<(usize, usize)> {
        while let Some((_, Reverse(node), Reverse(application))) = self.best.pop() {
            // Whose job is the oldest changes within an instant, and all nodes suit it alike.
            if self.policy == ByApplication::Fifo {
                return Some((self.policy.choose(self.importance, node, open)?, node));
            }
            if open.iter().any(|one| one.application == application) {
                return Some((application, node));
            }
            // Its next best is no better than what it had, so that nobody was served before it wrongly.
            self.enter(node, open);
        }
        None
    }
}
