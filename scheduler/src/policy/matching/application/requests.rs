//! Nodes that ask at the same instant: the order in which they are served.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{ByApplication, Importance, Open, Score};

/// Nodes that have asked and are not served yet. The best pair of a node and an application with tasks is
/// next; of equal pairs the lowest node, then the lowest application.
#[derive(Debug)]
pub struct Requests<'a> {
    policy: ByApplication,
    importance: &'a Importance,
    /// Each node with the application that it chose when it was last entered.
    best: BinaryHeap<(Score, Reverse<usize>, Reverse<usize>)>,
}

impl<'a> Requests<'a> {
    /// Makes the queue of these nodes at an instant. `open`: the applications that have tasks, in ascending
    /// order. O(nodes × applications).
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

    /// Returns the next (application, node) to be served; `None` if no node or no application is left.
    ///
    /// `open`: applications that still have tasks. Within an instant it only shrinks, because no task is
    /// returned. O(log nodes), and O(applications) for a node whose application has run out meanwhile.
    pub fn next(&mut self, open: &[Open]) -> Option<(usize, usize)> {
        while let Some((_, Reverse(node), Reverse(application))) = self.best.pop() {
            // The oldest job changes within an instant, and all nodes have the same score.
            if self.policy == ByApplication::Fifo {
                return Some((self.policy.choose(self.importance, node, open)?, node));
            }
            if open.iter().any(|one| one.application == application) {
                return Some((application, node));
            }
            // Its next choice is not better than its previous one, so no other node was served too late.
            self.enter(node, open);
        }
        None
    }
}
