//! Weights of applications on platforms, as readers see them, and their changes.

use serde::{Deserialize, Serialize};

use crate::{
    resources::Resources,
    time::{Span, Time},
};

/// Weights have moved.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WeightChange {
    /// When.
    pub at: Time,
    /// What they were moved to, and by which numbers.
    pub kind: KindView,
    /// What differs from when they were noted last.
    #[serde(default)]
    pub causes: Vec<WeightCause>,
}

/// Something that weights are made of differs from when they were noted last.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum WeightCause {
    /// They are the first of their kind.
    First,
    /// Pilots take part on other platforms.
    Platforms {
        /// On which they did before.
        before: Vec<String>,
    },
    /// More tasks can run at a time, or fewer.
    Slots {
        /// Where.
        platform: String,
        /// How many could.
        before: u64,
    },
    /// A task takes another time, or it was not known, or is guessed otherwise.
    Mean {
        /// Where.
        platform: String,
        /// How long it took, where one had run.
        before: Option<Span>,
        /// What it was taken to be where none had.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guessed: Option<Span>,
    },
    /// More attempts fail, or fewer.
    Errors {
        /// Where.
        platform: String,
        /// The part of them that failed.
        before: f64,
    },
    /// Paper 003's LOAD, or its ERROR: what waits on platforms is compared with the mean size of a job.
    Load {
        /// Tasks that waited on each platform or were held there.
        queued: Vec<(String, u64)>,
        /// The mean size of the last jobs.
        threshold: f64,
    },
    /// More waits, or less.
    Work {
        /// Tasks that were ready.
        before: u64,
    },
}

/// What is meant for which platform.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WeightsView {
    /// The word of the policy.
    pub policy: String,
    /// When all that is ready will have begun and what runs have ended, as far as can be told.
    pub last_end: Option<Span>,
    /// A row of weights for each kind of task.
    pub kinds: Vec<KindView>,
    /// How weights have moved, the last times, oldest first.
    pub history: Vec<WeightChange>,
}

/// The row of weights of a kind of task: an application's that need the same.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindView {
    /// The application.
    pub application: String,
    /// What each task needs.
    pub needs: Resources,
    /// Tasks that are ready and meant for some platform.
    pub n_ready: u64,
    /// By platform.
    pub platforms: Vec<WeightView>,
}

/// The weight of an application on a platform, and the numbers behind it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WeightView {
    /// The platform.
    pub platform: String,
    /// The share of what is ready, 0 to 1.
    pub weight: f64,
    /// What it was before; of a change only.
    pub before: Option<f64>,
    /// Ready tasks that are still meant for it.
    pub n_left: u64,
    /// Tasks that its pilots can run at a time.
    pub n_slots: u64,
    /// The mean wall time of a task there, where one has run or somebody has said it.
    pub mean: Option<Span>,
    /// Whether that was said and none has run.
    #[serde(default)]
    pub is_declared: bool,
    /// What it is taken to be where none has: by what other applications take there.
    #[serde(default)]
    pub guess: Option<Span>,
    /// The part of the last attempts there that failed, whoever's fault it was, 0 to 1.
    pub error_rate: f64,
    /// Tasks a second that it finishes; nothing where none has run.
    pub rate: Option<f64>,
    /// Whether what it begins now would end after all that others can do: it is given none.
    pub is_late: bool,
}
