//! A platform as its operator attached it.

use serde::{Deserialize, Serialize};

use crate::{
    engine::interface::platform::{
        price::{Money, Price},
        scaling::ScalingSpec,
        shape::Shape,
    },
    resources::Resources,
    time::Span,
};

/// The limits that an operator sets beside [`PlatformSpec::n_pilots_max`]; `None`: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PlatformLimits {
    /// Number of present or requested allocations whose pilots have not registered.
    pub n_queued_max: Option<u32>,
    /// Number of requests for allocations within any minute.
    pub n_submissions_per_minute: Option<u32>,
    /// Cores × time of the ended allocations, and of the present ones with their whole walltime. Without a
    /// walltime, none is requested.
    pub core_time_max: Option<Span>,
    /// Cores × time of the tasks of any one user: of those that pilots have reported, and as expected of
    /// those that pilots hold. No more tasks start than this allows.
    pub user_core_time_max: Option<Span>,
    /// The most that all allocations may cost: the ended ones and, with their whole walltime, the present
    /// ones. Without a walltime, none is requested. Platforms without a price have no such limit.
    pub cost_max: Option<Money>,
}

/// The mode that an operator sets for a platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PlatformMode {
    /// Pilots are requested when there is work for them.
    #[default]
    Active,
    /// No more allocations are requested; the present ones go on.
    Paused,
    /// No more allocations are requested; waiting ones are cancelled, and pilots leave when their tasks have
    /// ended.
    Draining,
    /// The platform is taken away: it has no allocations and gets none until it is attached again.
    Detached,
}

/// A platform as the operator attached it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlatformSpec {
    /// The platform's name, unique among platforms.
    pub name: String,
    /// The name of the backend.
    pub adapter: String,
    /// The SSH host or the name of the cloud through which the platform is reached; empty: this host, or the
    /// cloud that the environment names. `None`: the record is older than this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The resources of one pilot there.
    pub capacity: Resources,
    /// Number of nodes of one allocation, each with a pilot.
    #[serde(default = "one")]
    pub n_nodes: u32,
    /// Whether each node starts and ends by itself, like the tasks of a job array.
    #[serde(default)]
    pub is_array: bool,
    /// Whether a submission may take effect after its manager has ended: until `Settings::submit_limit` is
    /// over.
    #[serde(default)]
    pub submits_late: bool,
    /// Whether programs on the pilot's node can read its join token: the token then serves once, and not for
    /// a restarted pilot.
    #[serde(default)]
    pub joins_once: bool,
    /// Number of pilots that are kept even without work.
    pub n_pilots_min: u32,
    /// The most pilots that the platform may have.
    pub n_pilots_max: u32,
    /// The time after which a pilot without work is sent away.
    pub idle_timeout: Span,
    /// The walltime of an allocation; `None`: no end.
    pub walltime: Option<Span>,
    /// The interval between listings of the platform.
    pub poll_interval: Span,
    /// Further limits.
    #[serde(default)]
    pub limits: PlatformLimits,
    /// The settings of the vCPU ratio; `None`: a core is one vCPU.
    #[serde(default)]
    pub scaling: Option<ScalingSpec>,
    /// The platform's price, if it is known.
    #[serde(default)]
    pub price: Option<Price>,
}

fn one() -> u32 {
    1
}

impl PlatformSpec {
    /// Returns the properties of an allocation that a queue may treat differently.
    pub fn shape(&self) -> Shape {
        Shape { cores: self.cores_of_allocation(), n_nodes: self.n_nodes, walltime: self.walltime }
    }

    /// Returns the number of cores of one allocation, over all its nodes.
    pub fn cores_of_allocation(&self) -> u32 {
        self.capacity.cores.saturating_mul(self.n_nodes)
    }
}
