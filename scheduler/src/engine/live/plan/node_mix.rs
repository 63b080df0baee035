//! Node mixes: the applications that share each node.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{PilotId, PlatformId};

/// Number of cores of a node that are meant for each application.
pub type NodeMix = BTreeMap<String, u64>;

/// The node mix of each pilot. Empty without a policy.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NodeMixes {
    pub(in crate::engine) mixes: Vec<NodeMix>,
    pub(in crate::engine) of: BTreeMap<PilotId, usize>,
    /// The applications that have cores in node mixes of each platform.
    pub(in crate::engine) mapped: BTreeMap<PlatformId, BTreeSet<String>>,
}
