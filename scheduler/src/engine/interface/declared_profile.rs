//! Declared properties of an application, for the time before it has run. Measurements outweigh them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Number of measured tasks that a declared value counts as, unless the declaration says otherwise.
pub const COUNTS_AS: u32 = 10;

/// The least CPU share of a CPU-bound application.
const CPU_BOUND: f64 = 0.75;

/// The least part of its cores' memory that a memory-bound application uses.
const MEMORY_BOUND: f64 = 0.75;

/// The I/O rate, in bytes per second, below which an application with at least the CPU share [`AT_WORK`] is
/// CPU-bound: it waits for cores that co-runners use.
const IO_BOUND_LEAST: f64 = 262_144.0;

const AT_WORK: f64 = 0.25;

/// The resource that an application mostly waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum JobType {
    /// Cores.
    CpuBound,
    /// Disks or the network.
    IoBound,
    /// Memory.
    MemoryBound,
}

impl JobType {
    /// Returns the name of the type, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            JobType::CpuBound => "cpu-bound",
            JobType::IoBound => "io-bound",
            JobType::MemoryBound => "memory-bound",
        }
    }

    /// Returns the type that an application's first tasks show. `cpu_share`: the part of the time for which
    /// they kept their cores busy; `memory_share`: the part of these cores' memory that the largest task
    /// used; `io_rate`: the bytes per second that they read from and wrote to disks. (Paper 003, Algorithm 1,
    /// its default branch; we chose the bounds.)
    pub fn of(cpu_share: f64, memory_share: Option<f64>, io_rate: Option<f64>) -> JobType {
        match memory_share {
            Some(share) if share >= MEMORY_BOUND => JobType::MemoryBound,
            _ if cpu_share >= CPU_BOUND => JobType::CpuBound,
            _ if cpu_share >= AT_WORK && io_rate.is_some_and(|rate| rate < IO_BOUND_LEAST) => {
                JobType::CpuBound
            }
            _ => JobType::IoBound,
        }
    }
}

/// The declared properties of an application. Measurements outweigh them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// The resource that it mostly waits for.
    pub job_type: Option<JobType>,
    /// The part of the time for which a task keeps its cores busy, 0 to 1.
    pub cpu_share: Option<f64>,
    /// The runtime of a task, by name of the platform. Runtimes on platforms that are not attached serve as an
    /// estimate while none is known on an attached one.
    pub times: BTreeMap<String, Span>,
    /// Number of measured tasks that a declared value counts as.
    pub counts_as: u32,
    /// The source of these values.
    pub source: Option<String>,
}

impl Default for Declared {
    fn default() -> Declared {
        Declared {
            job_type: None,
            cpu_share: None,
            times: BTreeMap::new(),
            counts_as: COUNTS_AS,
            source: None,
        }
    }
}
