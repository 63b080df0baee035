//! Weights of applications on platforms, as readers see them, and their changes.

use serde::{Deserialize, Serialize};

use crate::{
    resources::Resources,
    time::{Span, Time},
};

/// A change of weights.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WeightChange {
    /// The time of the change.
    pub at: Time,
    /// The new weights, and the numbers behind them.
    pub kind: KindView,
    /// The differences from the last recorded change.
    #[serde(default)]
    pub causes: Vec<WeightCause>,
}

/// A number behind the weights that differs from the last recorded change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum WeightCause {
    /// These are the first weights of their kind of task.
    First,
    /// Pilots of other platforms take part than before.
    Platforms {
        /// The platforms before.
        before: Vec<String>,
    },
    /// More or fewer tasks can run at a time.
    Slots {
        /// The platform.
        platform: String,
        /// Number of tasks before.
        before: u64,
    },
    /// The mean runtime differs, was unknown, or is guessed differently.
    Mean {
        /// The platform.
        platform: String,
        /// The mean runtime before, if a task had run there.
        before: Option<Span>,
        /// The guessed runtime before, if none had run there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guessed: Option<Span>,
    },
    /// More or fewer attempts fail.
    Errors {
        /// The platform.
        platform: String,
        /// The part of attempts that failed before.
        before: f64,
    },
    /// Paper 003's LOAD or ERROR: the tasks that wait on platforms are compared with the mean size of a job.
    Load {
        /// Number of tasks that waited for or were held on each platform.
        queued: Vec<(String, u64)>,
        /// The mean size of the last jobs.
        threshold: f64,
    },
    /// More or fewer tasks wait.
    Work {
        /// Number of ready tasks before.
        before: u64,
    },
}

/// The weights of all kinds of tasks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WeightsView {
    /// The name of the policy.
    pub policy: String,
    /// The time until all ready tasks have started and the running ones have ended, by estimate.
    pub last_end: Option<Span>,
    /// A row of weights for each kind of task.
    pub kinds: Vec<KindView>,
    /// The last changes, oldest first.
    pub history: Vec<WeightChange>,
}

/// The row of weights of a kind of task: an application and the resources that its tasks need.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindView {
    /// The application.
    pub application: String,
    /// The resources of each task.
    pub needs: Resources,
    /// Number of ready tasks that are meant for some platform.
    pub n_ready: u64,
    /// The weights, by platform.
    pub platforms: Vec<WeightView>,
}

/// The weight of an application on a platform, and the numbers behind it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WeightView {
    /// The platform.
    pub platform: String,
    /// The part of the ready tasks that is meant for the platform, 0 to 1.
    pub weight: f64,
    /// The weight before; only in changes.
    pub before: Option<f64>,
    /// Number of ready tasks that are still meant for the platform.
    pub n_left: u64,
    /// Number of tasks that its pilots can run at a time.
    pub n_slots: u64,
    /// The mean runtime of a task there, measured or declared.
    pub mean: Option<Span>,
    /// Whether the runtime is declared and no task has run there.
    #[serde(default)]
    pub is_declared: bool,
    /// The guessed runtime if no task has run there, from the runtimes of other applications there.
    #[serde(default)]
    pub guess: Option<Span>,
    /// The part of the last attempts there that failed, for any reason, 0 to 1.
    pub error_rate: f64,
    /// Tasks per second that the platform completes; null if none has run there.
    pub rate: Option<f64>,
    /// Whether tasks that start there now would end after all others: the platform gets none.
    pub is_late: bool,
}
