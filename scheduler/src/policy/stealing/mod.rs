//! Stealing: the pilot of a platform at which a ready task waits, and the tasks that idle pilots may steal.
//!
//! After Wang et al., "Load-balanced and locality-aware scheduling for data-intensive workloads at extreme
//! scales" (MATRIX, 2015; paper 004): data-aware work stealing. Every pilot has two queues of ready tasks
//! ([`queues`]): its own (the paper's LReadyQ), for tasks that stay with their data, and the shared one
//! (SReadyQ), from which idle pilots steal ([`hunt`]). The paper's Algorithm 1, [`Stealing::spot`], chooses
//! the queue of a task; the policies differ in how much data a task may leave behind. [`bound`] computes a
//! lower bound for all policies.

pub mod bound;
mod flds;
pub mod hunt;
mod lend;
mod mdl;
mod mlb;
mod none;
pub mod queues;
pub mod relief;
mod rlds;

use serde::{Deserialize, Serialize};

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stealing {
    /// No pilot steals: see `none.rs`.
    None,
    /// All tasks may be stolen, whatever the data cost: see `mlb.rs`.
    Mlb,
    /// Tasks never leave their data: see `mdl.rs`.
    Mdl,
    /// Tasks leave data that are quick to fetch: see `rlds.rs`.
    Rlds {
        /// Largest fetching time, in percent of the runtime (the paper's t).
        t_percent: u32,
    },
    /// As RLDS, and more tasks leave where a queue has grown long: see `flds.rs`.
    Flds {
        /// As for [`Stealing::Rlds`].
        t_percent: u32,
        /// The largest length of a queue of tasks that stay, in milliseconds of work (the paper's tt).
        tt_ms: u64,
        /// Whether tt doubles when tasks were moved, and halves, not below `tt_ms`, when none were.
        is_adaptive: bool,
    },
    /// Tasks leave their data if they would wait longer than the transfer takes: see `lend.rs`. In our
    /// measurements as quick as the best of the others or quicker, on every workload of the paper.
    #[default]
    Lend,
}

/// The policies of this layer in the manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PilotStealing {
    /// No pilot steals: see `none.rs`.
    #[default]
    None,
    /// [`Stealing::Mlb`]
    Mlb,
    /// [`Stealing::Mdl`]
    Mdl,
    /// [`Stealing::Rlds`]
    Rlds,
    /// [`Stealing::Flds`]
    Flds,
    /// [`Stealing::Lend`]
    Lend,
}

impl PilotStealing {
    /// Returns the policy with its numbers.
    pub fn law(self) -> Stealing {
        match self {
            PilotStealing::None => Stealing::None,
            PilotStealing::Mlb => Stealing::Mlb,
            PilotStealing::Mdl => Stealing::Mdl,
            PilotStealing::Rlds => Stealing::Rlds { t_percent: T_PERCENT },
            PilotStealing::Flds => Stealing::Flds { t_percent: T_PERCENT, tt_ms: TT_MS, is_adaptive: true },
            PilotStealing::Lend => Stealing::Lend,
        }
    }
}

/// The paper's t, for running pilots.
const T_PERCENT: u32 = 50;
/// The paper's tt, for running pilots: a tenth of the paper's 10 s, because pilots hold fewer tasks here;
/// most tasks wait at the manager.
const TT_MS: u64 = 1_000;

/// An input of a task, and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The pilot that has it.
    pub at: usize,
    /// Size in bytes.
    pub bytes: u64,
}

/// A task that could begin: the properties that determine its place.
#[derive(Clone, Copy, Debug)]
pub struct Ready<'a> {
    /// All its inputs.
    pub inputs: &'a [Input],
    /// Expected runtime in seconds.
    pub run_s: f64,
    /// Bytes per second that a pilot fetches from another; positive.
    pub bytes_per_s: f64,
}

impl Ready<'_> {
    /// Returns the total size of its inputs.
    fn bytes(&self) -> u64 {
        self.inputs.iter().fold(0, |sum, input| sum.saturating_add(input.bytes))
    }

    /// Returns the largest input, the first of equal ones: `max_by_key` alone would take the last.
    fn largest(&self) -> Option<Input> {
        self.inputs.iter().rev().max_by_key(|input| input.bytes).copied()
    }

    fn fetch_s(&self, bytes: u64) -> f64 {
        bytes as f64 / self.bytes_per_s
    }
}

/// The rates at which a pilot runs tasks and fetches data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Tasks that a pilot begins in a second while it has any: its slots / their expected seconds.
    pub tasks_per_s: f64,
    /// Bytes per second that a pilot fetches from another; positive.
    pub bytes_per_s: f64,
}

/// The queue in which a ready task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The shared queue of the pilot where it became ready.
    Shared,
    /// The own queue of this pilot, which has the largest of its inputs.
    Own(usize),
}

impl Stealing {
    /// Returns the queue for a task that became ready at pilot `here` (paper 004, Algorithm 1): shared if all
    /// its data together are light, or if even the largest input is; else the queue of the pilot with the
    /// largest input, the first of equal ones.
    pub fn spot(self, task: &Ready<'_>, here: usize) -> Spot {
        let is_light = |bytes| self.is_light(bytes, task);
        match task.largest() {
            _ if self == Stealing::None => Spot::Own(here),
            Some(largest) if !is_light(task.bytes()) && !is_light(largest.bytes) => Spot::Own(largest.at),
            Some(_) | None => Spot::Shared,
        }
    }

    /// Returns the bytes by which the queues order a task: the total size of its inputs (paper 004), or the
    /// part that it would have to fetch elsewhere but not where it waits.
    pub fn weight(self, task: &Ready<'_>) -> u64 {
        match self {
            Stealing::Lend => lend::weight(task),
            Stealing::None
            | Stealing::Mlb
            | Stealing::Mdl
            | Stealing::Rlds { .. }
            | Stealing::Flds { .. } => task.bytes(),
        }
    }

    /// Returns whether idle pilots steal tasks of others.
    pub fn steals(self) -> bool {
        self != Stealing::None
    }

    /// Returns whether another pilot may steal a task from a pilot's own queue. `n_waiting`: the tasks that
    /// begin there before it, and itself. `bytes`: its [`weight`](Stealing::weight).
    pub fn may_leave(self, n_waiting: usize, bytes: u64, pace: &Pace) -> bool {
        match self {
            Stealing::Lend => lend::may_leave(n_waiting, bytes, pace),
            Stealing::None
            | Stealing::Mlb
            | Stealing::Mdl
            | Stealing::Rlds { .. }
            | Stealing::Flds { .. } => false,
        }
    }

    /// Returns whether a task may run where it has to fetch this much.
    fn is_light(self, bytes: u64, task: &Ready<'_>) -> bool {
        match self {
            Stealing::None => none::is_light(),
            Stealing::Mlb => mlb::is_light(),
            Stealing::Mdl => mdl::is_light(bytes),
            Stealing::Rlds { t_percent } => rlds::is_light(bytes, task, t_percent),
            Stealing::Flds { t_percent, .. } => flds::is_light(bytes, task, t_percent),
            Stealing::Lend => lend::is_light(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
