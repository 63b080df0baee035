//! The reason for which an allocation is asked for.

use serde::{Deserialize, Serialize};

use crate::{engine::interface::platform::queue_load::QueueLoad, time::Span};

/// From which numbers an allocation was asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProvisionReason {
    /// Allocations that the work at hand wanted there, or the platform's minimum.
    pub n_wanted: u64,
    /// How busy the platform was, where it says so.
    pub load: Option<QueueLoad>,
    /// What the policy of placement compared, if there was one.
    pub compared: Option<Compared>,
    /// Its walltime, where a budget left no more than that: shorter than its platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime: Option<Span>,
}

/// What a policy of placement compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// Its word.
    pub policy: String,
    /// When what waited would have ended on average without one more allocation anywhere; `None`: never.
    pub without: Option<Span>,
    /// With one more on each platform: how long that would wait, and when all would end on average.
    pub with: Vec<(String, Span, Option<Span>)>,
}
