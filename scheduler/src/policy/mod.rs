//! The policies, a folder a layer, a file a policy, a registry line each. Pure functions.

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

/// Which policy each layer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policies {
    /// How many cores of each platform each user gets; `None`: users are left to matching.
    #[serde(with = "allocation::words")]
    pub allocation: Option<allocation::Allocation>,
    /// How fit is measured for that.
    pub affinity: affinity::Affinity,
    /// How much of what is ready is meant for each platform; `None`: pilots take what is there.
    #[serde(with = "none_or")]
    pub distribution: Option<distribution::Distribution>,
    /// Which platform the next allocation is asked of; `None`: each for which there is work.
    #[serde(with = "none_or")]
    pub placement: Option<placement::pilots::PilotPlacement>,
    /// Which job a pulling pilot serves.
    pub matching: matching::Matching,
    /// How many of its tasks go along.
    pub bundling: bundling::Bundling,
    /// Whose tasks share a node; `None`: whoever's come.
    #[serde(with = "none_or")]
    pub mapping: Option<mapping::Mapping>,
    /// What pilots may take from each other.
    pub stealing: stealing::PilotStealing,
    /// How many vCPUs a core stands for, where that may be another number than one.
    pub scaling: scaling::Scaling,
}

impl Default for Policies {
    /// What wins in our measurements (docs/simulate.md).
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
