//! Bin packing: each processor has a bin, all of the same capacity in seconds; the largest task that fits
//! goes into the least filled bin (paper 002, section 3.3, equation 9, Fig. 3).
//!
//! The paper gives no values for its constants: the defaults are ours, chosen by the sweep in the simulator's
//! report.

use std::{cmp::Reverse, collections::BinaryHeap};

use serde::{Deserialize, Serialize};

use super::{Estimates, Taker, Waiting};

/// The constants of equation 9, alpha = max(c1 M / r, c2 (T_trans + T_env)), and the choices that the paper
/// leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct BinPacking {
    /// Capacity of a bin in multiples of the largest task. From 1 on the largest task fits; the larger, the
    /// fewer nodes a job uses.
    pub c1: f64,
    /// Capacity of a bin in multiples of the time that it takes to bring a bundle and set up its environment.
    pub c2: f64,
    /// The rule for the largest task, M.
    pub largest: Largest,
    /// Whether a bin holds at most half of the remaining work per processor of the job, so that no processor
    /// ends long after the others; the largest waiting task always fits. Not in the paper.
    pub is_tail_shrunk: bool,
}

/// The tasks among which the largest is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Largest {
    /// The waiting tasks: bins shrink as the job's large tasks run out.
    Waiting,
    /// All tasks that the job ever had.
    OfAll,
}

impl Default for BinPacking {
    fn default() -> BinPacking {
        BinPacking { is_tail_shrunk: true, ..BinPacking::PAPER }
    }
}

impl BinPacking {
    /// The policy of the paper, with our constants. The default also shrinks the tail; the simulator's report
    /// compares both.
    pub const PAPER: BinPacking =
        BinPacking { c1: 1.0, c2: 10.0, largest: Largest::Waiting, is_tail_shrunk: false };

    /// Returns the capacity of a bin in the estimates' unit: alpha r of equation 9, because alpha is in
    /// seconds on the node. Therefore the largest task fits exactly if c1 is 1. Returns 0 if no task waits.
    pub fn capacity(&self, waiting: &impl Waiting, taker: &Taker) -> f64 {
        let Some(largest_waiting) = waiting.largest() else { return 0.0 };
        let largest = match self.largest {
            Largest::Waiting => largest_waiting,
            Largest::OfAll => waiting.largest_ever(),
        };
        let by_size = self.c1 * largest;
        let by_overhead = self.c2 * (taker.transfer_s + taker.environment_s) * taker.rate;
        if !self.is_tail_shrunk {
            return by_size.max(by_overhead);
        }
        let half_share = waiting.work() / (2.0 * taker.n_sharing.max(1) as f64);
        by_size.max(by_overhead).min(half_share.max(largest_waiting))
    }

    /// Takes as many tasks as fit, the largest first; if none fits, the largest alone. Never empty while a
    /// task waits. O(s log n) for s tasks of n.
    pub fn pack<W: Waiting>(&self, waiting: &mut W, taker: &Taker) -> Vec<Packed<W::Task>> {
        pack(waiting, taker.n_bins, self.capacity(waiting, taker))
    }
}

/// A task of a bundle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packed<T> {
    /// The name of the task.
    pub task: T,
    /// Its estimate.
    pub estimate: f64,
    /// Number of tasks before it in its bin.
    pub rank: u32,
}

pub(super) fn take(waiting: &mut Estimates, taker: &Taker, law: BinPacking) -> Vec<f64> {
    law.pack(waiting, taker).into_iter().map(|packed| packed.estimate).collect()
}

/// Packs tasks into bins of a capacity in the estimates' unit.
///
/// The least filled bin has the most room: if nothing fits there, nothing fits anywhere. So its room never
/// grows, and tasks come out in their order, the largest first.
pub(super) fn pack<W: Waiting>(waiting: &mut W, n_bins: u32, capacity: f64) -> Vec<Packed<W::Task>> {
    let mut bundle = Vec::new();
    let mut loads: BinaryHeap<_> = (0..n_bins).map(|bin| Reverse((0_f64.to_bits(), bin, 0))).collect();
    while let Some(mut least) = loads.peek_mut() {
        let Reverse((load, _, rank)) = &mut *least;
        let filled = f64::from_bits(*load);
        let Some((estimate, task)) = waiting.take_at_most(capacity - filled) else { break };
        bundle.push(Packed { task, estimate, rank: *rank });
        *load = (filled + estimate).to_bits();
        *rank += 1;
    }
    if bundle.is_empty() {
        let largest = waiting.take_at_most(f64::MAX);
        bundle.extend(largest.map(|(estimate, task)| Packed { task, estimate, rank: 0 }));
    }
    bundle
}
