//! The reason for the request of an allocation.

use serde::{Deserialize, Serialize};

use crate::{engine::interface::platform::queue_load::QueueLoad, time::Span};

/// The numbers behind a request for an allocation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProvisionReason {
    /// Number of allocations that the waiting work needed there, or the platform's minimum.
    pub n_wanted: u64,
    /// The queue load of the platform, if it reports one.
    pub load: Option<QueueLoad>,
    /// The comparison by the placement policy, if there was one.
    pub compared: Option<Compared>,
    /// The walltime, if a budget allowed only a shorter one than the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime: Option<Span>,
}

/// The comparison of platforms by a placement policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// The name of the policy.
    pub policy: String,
    /// The mean time until the waiting work ends without another allocation; `None`: never.
    pub without: Option<Span>,
    /// With another allocation on each platform: its queue wait, and the mean time until the work ends.
    pub with: Vec<(String, Span, Option<Span>)>,
}
