//! The mix of applications that each node is meant for.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{PilotId, PlatformId};

/// Cores of a node that are meant for each application.
pub type NodeMix = BTreeMap<String, u64>;

/// The mix of each pilot's node. Empty without a policy.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NodeMixes {
    pub(in crate::engine) mixes: Vec<NodeMix>,
    pub(in crate::engine) of: BTreeMap<PilotId, usize>,
    /// Applications for which cores of a platform are meant.
    pub(in crate::engine) mapped: BTreeMap<PlatformId, BTreeSet<String>>,
}
