//! Stealing: at which pilot of a platform a ready task waits, and what idle pilots may take from others.
//!
//! After Wang et al., "Load-balanced and locality-aware scheduling for data-intensive workloads at extreme
//! scales" (MATRIX, 2015; paper 004): data-aware work stealing. Every pilot has two queues of ready tasks
//! ([`queues`]): its own (the paper's LReadyQ), for tasks that stay with their data, and the shared one
//! (SReadyQ), from which idle pilots steal ([`hunt`]). Where a task goes is the paper's Algorithm 1,
//! [`Stealing::spot`]; the policies differ in how much data a task may leave behind. [`bound`] says what no
//! policy can beat.

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
    /// Nobody takes anything from anybody: see `none.rs`.
    None,
    /// Balanced whatever the data cost: see `mlb.rs`.
    Mlb,
    /// Tasks never leave their data: see `mdl.rs`.
    Mdl,
    /// They leave what is quick to fetch: see `rlds.rs`.
    Rlds {
        /// Largest fetching time, in percent of the running time (the paper's t).
        t_percent: u32,
    },
    /// And more where a queue has grown long: see `flds.rs`.
    Flds {
        /// As for [`Stealing::Rlds`].
        t_percent: u32,
        /// A queue of tasks that stay may be so many milliseconds of work long (the paper's tt).
        tt_ms: u64,
        /// Whether tt doubles when tasks were moved, and halves, not below `tt_ms`, when none had to be.
        is_adaptive: bool,
    },
    /// They leave their data when they would wait longer than fetching takes: see `lend.rs`. In our
    /// measurements as quick as the best of the others or quicker, on every workload of the paper.
    #[default]
    Lend,
}

/// The policies of this layer in the running manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PilotStealing {
    /// What a pilot holds stays with it: see `none.rs`.
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
    /// What it says.
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

/// The paper's t of running pilots.
const T_PERCENT: u32 = 50;
/// Its tt there: a tenth of the paper's 10 s, as much less as pilots hold fewer tasks, of which most wait at the
/// manager.
const TT_MS: u64 = 1_000;

/// A file or object that a task reads, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The pilot that has it.
    pub at: usize,
    /// How large it is.
    pub bytes: u64,
}

/// A task that could begin, as far as it matters where.
#[derive(Clone, Copy, Debug)]
pub struct Ready<'a> {
    /// All that it reads.
    pub inputs: &'a [Input],
    /// Seconds that it is expected to run.
    pub run_s: f64,
    /// What a pilot fetches in a second from another; positive.
    pub bytes_per_s: f64,
}

impl Ready<'_> {
    /// All that it reads.
    fn bytes(&self) -> u64 {
        self.inputs.iter().fold(0, |sum, input| sum.saturating_add(input.bytes))
    }

    /// The first of equal ones: `max_by_key` alone would take the last.
    fn largest(&self) -> Option<Input> {
        self.inputs.iter().rev().max_by_key(|input| input.bytes).copied()
    }

    fn fetch_s(&self, bytes: u64) -> f64 {
        bytes as f64 / self.bytes_per_s
    }
}

/// How fast a pilot runs tasks and takes in data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Tasks that a pilot begins in a second while it has any: its slots / their expected seconds.
    pub tasks_per_s: f64,
    /// What a pilot fetches in a second from another; positive.
    pub bytes_per_s: f64,
}

/// Where a ready task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// In the shared queue of the pilot where it became ready.
    Shared,
    /// In the own queue of this pilot, which has the largest of its files.
    Own(usize),
}

impl Stealing {
    /// Where a task waits that became ready at pilot `here` (paper 004, Algorithm 1): shared when all its data
    /// are light, or when even the largest file is; else with the largest file, the first of equal ones.
    pub fn spot(self, task: &Ready<'_>, here: usize) -> Spot {
        let is_light = |bytes| self.is_light(bytes, task);
        match task.largest() {
            _ if self == Stealing::None => Spot::Own(here),
            Some(largest) if !is_light(task.bytes()) && !is_light(largest.bytes) => Spot::Own(largest.at),
            Some(_) | None => Spot::Shared,
        }
    }

    /// The bytes by which the queues order a task: all that it reads (paper 004), or what it would have to fetch
    /// elsewhere and not where it waits.
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

    /// Whether idle pilots look for tasks of others.
    pub fn steals(self) -> bool {
        self != Stealing::None
    }

    /// Whether a task in a pilot's own queue, with so many to be begun there before it or with it, may be taken
    /// by another. `bytes`: its [`weight`](Stealing::weight).
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

    /// Whether a task may run where it has to fetch so much.
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
