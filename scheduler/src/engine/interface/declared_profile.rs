//! What somebody says of an application before it has run: a prior, which measurements outweigh.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Tasks that a declared value counts for, if nobody says how many.
pub const COUNTS_AS: u32 = 10;

/// Keeps its cores so busy at least: it is CPU-bound.
const CPU_BOUND: f64 = 0.75;

/// Takes at least this part of its cores' memory: it is memory-bound.
const MEMORY_BOUND: f64 = 0.75;

/// Who moves fewer bytes a second, and is at work for this part of the time at least, waits for cores that others have.
const IO_BOUND_LEAST: f64 = 262_144.0;

const AT_WORK: f64 = 0.25;

/// What an application mostly waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum JobType {
    /// For its cores.
    CpuBound,
    /// For disks or the network.
    IoBound,
    /// For memory.
    MemoryBound,
}

impl JobType {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            JobType::CpuBound => "cpu-bound",
            JobType::IoBound => "io-bound",
            JobType::MemoryBound => "memory-bound",
        }
    }

    /// The type that its first tasks show: how busy they kept their cores, which part of those cores' memory the largest
    /// took, and how many bytes a second they moved from disks and to them, where that is known. (Paper 003, Algorithm 1,
    /// its default branch; the bounds are chosen.)
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

/// See the module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// Its type.
    pub job_type: Option<JobType>,
    /// How busy a task keeps its cores, 0 to 1.
    pub cpu_share: Option<f64>,
    /// The wall time of a task, by name of the platform; platforms that are not attached count as "elsewhere".
    pub times: BTreeMap<String, Span>,
    /// Measured tasks that count as much as this.
    pub counts_as: u32,
    /// Where it is from.
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
