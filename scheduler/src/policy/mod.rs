//! The policies: a directory for each layer, a file for each policy, a line in the registry. Pure functions.

pub mod affinity;
pub mod allocation;
pub mod bundling;
pub mod distribution;
pub mod mapping;
pub mod matching;
pub mod none_or;
pub mod placement;
pub mod scaling;
pub mod stealing;
pub mod table;

use serde::{Deserialize, Serialize};

/// The policy of each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policies {
    /// How many cores of each platform each user gets; `None`: matching alone decides between users.
    #[serde(with = "allocation::words")]
    pub allocation: Option<allocation::Allocation>,
    /// The measure of affinity for the allocation layer.
    pub affinity: affinity::Affinity,
    /// How many of the ready tasks are meant for each platform; `None`: pilots take any.
    #[serde(with = "none_or")]
    pub distribution: Option<distribution::Distribution>,
    /// The platform of the next allocation; `None`: each platform for which there is work.
    #[serde(with = "none_or")]
    pub placement: Option<placement::pilots::PilotPlacement>,
    /// The job that a pulling pilot serves.
    pub matching: matching::Matching,
    /// The number of its tasks in one answer.
    pub bundling: bundling::Bundling,
    /// The users whose tasks share a node; `None`: any users.
    #[serde(with = "none_or")]
    pub mapping: Option<mapping::Mapping>,
    /// The tasks that pilots may steal from each other.
    pub stealing: stealing::PilotStealing,
    /// The vCPU ratio, on platforms where it may differ from one.
    pub scaling: scaling::Scaling,
}

impl Default for Policies {
    /// Returns the policies that are best in our measurements (docs/simulate.md).
    fn default() -> Policies {
        Policies {
            allocation: None,
            affinity: affinity::Affinity::default(),
            distribution: Some(distribution::Distribution::Adaptive),
            placement: None,
            matching: matching::Matching::default(),
            bundling: bundling::Bundling::default(),
            mapping: None,
            stealing: stealing::PilotStealing::default(),
            scaling: scaling::Scaling::default(),
        }
    }
}
