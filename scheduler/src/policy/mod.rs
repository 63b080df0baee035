//! The policies, a folder a layer, a file a policy, a registry line each. Pure functions.

pub mod affinity;
pub mod allocation;
pub mod bundling;
pub mod distribution;
pub mod mapping;
pub mod matching;
pub mod placement;
pub mod scaling;
pub mod stealing;
pub mod table;

use serde::{Deserialize, Serialize};

/// Which policy each layer uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policies {
    /// How many cores of each platform each user gets; `None`: users are left to matching.
    #[serde(with = "allocation::words")]
    pub allocation: Option<allocation::Allocation>,
    /// How fit is measured for that.
    pub affinity: affinity::Affinity,
    /// Which job a pulling pilot serves.
    pub matching: matching::Matching,
    /// How many of its tasks go along.
    pub bundling: bundling::Bundling,
}
