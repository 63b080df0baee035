//! Mapping, the second level of sharing: chooses the users whose tasks share a node, within each user's cores
//! of a platform (paper 000, section 5.4).
//!
//! A node's cores are divided equally among the members of a combination. Cores that fit no combination are
//! assigned at random, so that each core that belongs to a user's share is used.

mod all_core;
mod ca_rr;
mod maf;
mod random;

use serde::{Deserialize, Serialize};

use super::{affinity::corunner::CorunnerAffinity, none_or::Worded};
use crate::rng::Rng;

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Each node belongs to one user: see `all_core.rs`.
    AllCore,
    /// Any combination that fits, node by node: see `random.rs`.
    Random,
    /// The user whose tasks suffer most chooses first: see `maf.rs`.
    Maf {
        /// Whether co-runner affinities are computed anew after each choice, among the users that are left.
        is_recomputed: bool,
        /// Whether affinities are of pairs only, which are quicker to profile.
        is_of_pairs: bool,
    },
    /// Users choose in turns: see `ca_rr.rs`.
    CaRr {
        /// Nodes taken at a time (the paper's P_unit).
        unit_nodes: u64,
    },
}

impl Worded for Mapping {
    const WORDS: &'static [&'static str] = &["none", "all-core", "random", "ca-rr", "maf"];
    const POLICIES: &'static [Mapping] = &[
        Mapping::AllCore,
        Mapping::Random,
        Mapping::CaRr { unit_nodes: 1 },
        Mapping::Maf { is_recomputed: true, is_of_pairs: false },
    ];
}

impl Default for Mapping {
    fn default() -> Mapping {
        Mapping::Maf { is_recomputed: true, is_of_pairs: false }
    }
}

/// Users that share a node, and the runtimes of their tasks there.
#[derive(Clone, Debug, PartialEq)]
pub struct Combination {
    /// The users, in ascending order.
    pub members: Vec<usize>,
    /// Seconds that a task of each of them takes in this combination.
    pub runtimes: Vec<f64>,
}

impl Combination {
    fn runtime_of(&self, user: usize) -> Option<f64> {
        let at = self.members.iter().position(|member| *member == user)?;
        self.runtimes.get(at).copied()
    }
}

/// A platform to be divided.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// Number of nodes.
    pub n_nodes: u64,
    /// Cores of each node.
    pub cores_per_node: u64,
    /// Cores that each user has here; together no more than there are.
    pub shares: &'a [u64],
    /// Seconds that a task of each user takes alone on a node, on one core; positive.
    pub alone: &'a [f64],
    /// The combinations that may share a node, including each user alone.
    pub combinations: &'a [Combination],
    /// The measure of the slow-down by co-runners.
    pub affinity: CorunnerAffinity,
    /// The seed of random choices.
    pub seed: u64,
}

/// The assignment of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Number of nodes of each combination, by its place in [`Site::combinations`].
    pub n_nodes: Vec<u64>,
    /// Nodes that were filled at random: cores of each user.
    pub mixed: Vec<Vec<u64>>,
}

impl Mapping {
    /// Fills the nodes.
    ///
    /// # Panics
    /// A member of a combination is no user of the site.
    pub fn place(self, site: &Site<'_>) -> Placed {
        let mut floor = Floor::new(site);
        match self {
            Mapping::AllCore => all_core::fill(&mut floor),
            Mapping::Random => random::fill(&mut floor),
            Mapping::Maf { is_recomputed, is_of_pairs } => maf::fill(&mut floor, is_recomputed, is_of_pairs),
            Mapping::CaRr { unit_nodes } => ca_rr::fill(&mut floor, unit_nodes),
        }
        floor.draw_the_rest()
    }
}

/// Nodes being filled: no core of a share is used twice.
struct Floor<'a> {
    site: &'a Site<'a>,
    left: Vec<u64>,
    n_free: u64,
    n_nodes: Vec<u64>,
    luck: Rng,
}

impl<'a> Floor<'a> {
    fn new(site: &'a Site<'a>) -> Floor<'a> {
        Floor {
            site,
            left: site.shares.to_vec(),
            n_free: site.n_nodes,
            n_nodes: vec![0; site.combinations.len()],
            luck: Rng::new(site.seed),
        }
    }

    /// Returns the cores of a node for each member of a combination.
    fn piece(&self, combination: usize) -> u64 {
        self.site.cores_per_node / (self.site.combinations[combination].members.len() as u64).max(1)
    }

    /// Returns the number of nodes on which the combination fits.
    fn n_possible(&self, combination: usize) -> u64 {
        let piece = self.piece(combination);
        let members = &self.site.combinations[combination].members;
        let fits = members.iter().map(|user| self.left[*user].checked_div(piece).unwrap_or(0)).min();
        fits.unwrap_or(0).min(self.n_free)
    }

    /// Puts a combination on `n` nodes, or on as many as it fits.
    fn put(&mut self, combination: usize, n: u64) {
        let n = n.min(self.n_possible(combination));
        let piece = self.piece(combination);
        for user in &self.site.combinations[combination].members {
            self.left[*user] -= n * piece;
        }
        self.n_free -= n;
        self.n_nodes[combination] += n;
    }

    /// Returns the combination that fits and in which the user's tasks are quickest; ties go to fewer
    /// members, then to their order.
    fn best_for(&self, user: usize) -> Option<usize> {
        let all = self.site.combinations.iter().enumerate();
        let fitting = all.filter_map(|(at, combination)| {
            let runtime = combination.runtime_of(user).filter(|_| self.n_possible(at) > 0)?;
            Some((at, runtime, &combination.members))
        });
        let best = fitting.min_by(|(_, runtime, members), (_, other, others)| {
            let by_runtime = runtime.total_cmp(other);
            by_runtime.then(members.len().cmp(&others.len())).then(members.cmp(others))
        });
        best.map(|(at, ..)| at)
    }

    /// Fills the remaining nodes core by core with users drawn at random, each core of the remaining shares
    /// with equal probability.
    fn draw_the_rest(mut self) -> Placed {
        let mut mixed = Vec::new();
        while self.n_free > 0 && self.left.iter().any(|n| *n > 0) {
            let mut node = vec![0; self.left.len()];
            for _ in 0..self.site.cores_per_node {
                let mut at = self.luck.below(self.left.iter().sum());
                let drawn = self.left.iter().position(|n| match at.checked_sub(*n) {
                    Some(rest) => {
                        at = rest;
                        false
                    }
                    None => true,
                });
                let Some(user) = drawn else { break };
                self.left[user] -= 1;
                node[user] += 1;
            }
            mixed.push(node);
            self.n_free -= 1;
        }
        Placed { n_nodes: self.n_nodes, mixed }
    }
}

#[cfg(test)]
mod tests;
