//! Simulation of the queue: places requests one after the other, each as soon as it fits and never before the
//! one ahead of it. Holes are not filled later (paper 001).

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use super::{Inner, Request, Scene, floor::Floor};
use crate::rng::Rng;

/// Cores that come free at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    at: f64,
    rank: usize,
    cores: u64,
}

impl Ord for End {
    fn cmp(&self, other: &End) -> Ordering {
        self.at.total_cmp(&other.at)
    }
}
impl PartialOrd for End {
    fn partial_cmp(&self, other: &End) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for End {
    fn eq(&self, other: &End) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for End {}

/// Returns the ends of all running requests, earliest first, none before now. They are computed once for a
/// decision and shared by its branches, which keep heaps of their own placements: no branch copies the
/// running requests.
pub(super) fn ends(floor: &Floor, scene: &Scene<'_>) -> Vec<End> {
    let ranks = floor.ranks();
    let end = |running: &super::Running| End {
        at: running.ends_at.max(scene.now),
        rank: ranks[running.platform],
        cores: running.cores,
    };
    let mut ends: Vec<End> = scene.running.iter().map(end).collect();
    ends.sort_unstable();
    ends
}

/// The place and time of a request in the simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    pub rank: usize,
    pub starts_at: f64,
    pub ends_at: f64,
}

/// One branch of a decision.
#[derive(Debug)]
pub(super) struct Horizon<'a> {
    /// When the last request started; it never goes back.
    now: f64,
    free: Vec<u64>,
    speeds: &'a [f64],
    known: &'a [End],
    placed: BinaryHeap<Reverse<End>>,
    luck: Rng,
}

impl<'a> Horizon<'a> {
    pub(super) fn new(now: f64, floor: &'a Floor, known: &'a [End], seed: u64) -> Horizon<'a> {
        let (free, speeds) = (floor.free.clone(), &floor.speeds[..]);
        Horizon { now, free, speeds, known, placed: BinaryHeap::new(), luck: Rng::new(seed) }
    }

    /// Starts the request on this platform now.
    pub(super) fn put(&mut self, request: &Request, rank: usize) -> Planned {
        let end = End { at: self.now + request.runtime / self.speeds[rank], rank, cores: request.cores };
        self.free[rank] -= request.cores;
        self.placed.push(Reverse(end));
        Planned { rank, starts_at: self.now, ends_at: end.at }
    }

    /// Starts the request as soon as there is room; `None`: there never is, even when all others have ended.
    pub(super) fn put_next(&mut self, request: &Request, inner: Inner) -> Option<Planned> {
        loop {
            if let Some(rank) = inner.choose(&self.free, request.cores, &mut self.luck) {
                return Some(self.put(request, rank));
            }
            self.wait()?;
        }
    }

    /// Advances to the next end; all cores that come free at that moment are freed.
    fn wait(&mut self) -> Option<()> {
        let known = self.known.first().map(|end| end.at);
        let placed = self.placed.peek().map(|end| end.0.at);
        self.now = match (known, placed) {
            (Some(known), Some(placed)) => known.min(placed),
            (known, placed) => known.or(placed)?,
        };
        while let Some((end, rest)) = self.known.split_first().filter(|(end, _)| end.at <= self.now) {
            self.free[end.rank] += end.cores;
            self.known = rest;
        }
        while self.placed.peek().is_some_and(|end| end.0.at <= self.now)
            && let Some(Reverse(end)) = self.placed.pop()
        {
            self.free[end.rank] += end.cores;
        }
        Some(())
    }
}
