//! Profiles of applications, as readers see them.

use serde::{Deserialize, Serialize};

use crate::{
    engine::interface::declared_profile::{Declared, JobType},
    time::Span,
};

/// The profile of an application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileView {
    /// The application's name in jobs.
    pub application: String,
    /// The resource that its tasks mostly wait for: as declared, else as measured.
    pub job_type: Option<JobType>,
    /// The measurements, by name of the platform.
    pub platforms: Vec<ExperienceView>,
    /// The declared properties; measurements outweigh them.
    pub declared: Option<Declared>,
}

/// The measurements of an application on one platform. In means, recent attempts count more.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperienceView {
    /// The platform.
    pub platform: String,
    /// Number of successful attempts.
    pub n_done: u64,
    /// Number of attempts that failed because of the program.
    pub n_failed: u64,
    /// Mean runtime of a successful attempt.
    pub mean: Option<Span>,
    /// Standard deviation of that runtime.
    pub deviation: Option<Span>,
    /// The part of the time for which a successful attempt keeps its cores busy, 0 to about 1.
    pub cpu_share: Option<f64>,
    /// The part of attempts that fail because of the program, 0 to 1.
    pub error_rate: Option<f64>,
    /// The largest peak memory of a successful attempt, in bytes; 0: unknown.
    pub memory_bytes_max: u64,
    /// Bytes per second that a task reads from and writes to disks, if a pilot has reported it.
    #[serde(default)]
    pub io_rate: Option<f64>,
    /// The time until a task's program has started, if a pilot has reported it.
    #[serde(default)]
    pub prepared: Option<Span>,
    /// The parallel degree: how many tasks at a time a node gains from, as far as is known.
    #[serde(default)]
    pub degree: u32,
    /// Runtimes by co-runners, on nodes with several cores.
    #[serde(default)]
    pub beside: Vec<BesideView>,
}

/// The runtime of an application's tasks beside certain co-runners.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BesideView {
    /// The other applications on a full node; null: the task was alone on the node.
    pub others: Option<Vec<String>>,
    /// Number of successful attempts.
    pub n: u64,
    /// Mean runtime; recent attempts count more.
    pub mean: Span,
    /// The increase over the runtime alone: 0.5 means 50 % longer. Null: no task has run alone.
    pub difference: Option<f64>,
}
