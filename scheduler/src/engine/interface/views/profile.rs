//! Profiles of applications, as readers see them.

use serde::{Deserialize, Serialize};

use crate::{
    engine::interface::declared_profile::{Declared, JobType},
    time::Span,
};

/// What is known of an application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileView {
    /// As jobs name it.
    pub application: String,
    /// What its tasks wait for most: as declared, else as they show.
    pub job_type: Option<JobType>,
    /// Where it has run, by name of the platform.
    pub platforms: Vec<ExperienceView>,
    /// What was said of it; measurements outweigh it.
    pub declared: Option<Declared>,
}

/// What was learned of an application on one platform. Means forget what was long ago.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperienceView {
    /// The platform.
    pub platform: String,
    /// Successes.
    pub n_done: u64,
    /// Attempts that failed by the program's fault.
    pub n_failed: u64,
    /// Mean wall time of a success.
    pub mean: Option<Span>,
    /// Its standard deviation.
    pub deviation: Option<Span>,
    /// How busy a success keeps its cores, 0 to about 1.
    pub cpu_share: Option<f64>,
    /// The part of attempts that fail by the program's fault, 0 to 1.
    pub error_rate: Option<f64>,
    /// The largest peak memory of a success, bytes; 0: not known.
    pub memory_bytes_max: u64,
    /// Bytes a second that a task reads from disks and writes to them, where any has told.
    #[serde(default)]
    pub io_rate: Option<f64>,
    /// How long it takes until a task's program has begun, where any has told.
    #[serde(default)]
    pub prepared: Option<Span>,
    /// How many tasks a node runs well at a time, as far as is known.
    #[serde(default)]
    pub degree: u32,
    /// What it takes in company, on nodes of several cores.
    #[serde(default)]
    pub beside: Vec<BesideView>,
}

/// What an application's tasks take beside others on a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BesideView {
    /// The other applications on a full node; `None`: the task had the node for itself.
    pub others: Option<Vec<String>>,
    /// Successes.
    pub n: u64,
    /// Mean wall time; it forgets what was long ago.
    pub mean: Span,
    /// How much longer that is than alone: 0.5 is half as much again. `None`: none has run alone.
    pub difference: Option<f64>,
}
