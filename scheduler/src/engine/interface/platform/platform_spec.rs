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

/// What a platform's operator allows beside [`PlatformSpec::n_pilots_max`]; `None`: no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PlatformLimits {
    /// Allocations that are there and whose pilots have not come.
    pub n_queued_max: Option<u32>,
    /// Allocations asked for within any minute.
    pub n_submissions_per_minute: Option<u32>,
    /// Cores × time of allocations that ended, and of those there with their walltime: none is asked for without.
    pub core_time_max: Option<Span>,
    /// Cores × time of the tasks of any one user: what those took that pilots have reported, and what those are
    /// expected to take that pilots hold. No more of them begin than it allows.
    pub user_core_time_max: Option<Span>,
    /// What all allocations may cost, those that have ended and, with their whole walltime, those that are there.
    /// Nothing is asked for without a walltime. Of a platform without a price nothing.
    pub cost_max: Option<Money>,
}

/// What an operator wants of a platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PlatformMode {
    /// Pilots, when there is work for them.
    #[default]
    Active,
    /// No more allocations; what is there goes on.
    Paused,
    /// No more allocations; those that wait are cancelled, and pilots leave when their tasks have ended.
    Draining,
    /// Taken away: nothing is there, and nothing is asked for until it is attached again.
    Detached,
}

/// A source of pilots as the operator attached it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlatformSpec {
    /// Unique among platforms.
    pub name: String,
    /// The adapter's name.
    pub adapter: String,
    /// Where it is asked: the SSH host, or the name of the cloud; empty: this host, or where the environment says. `None`:
    /// a record of before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// What one pilot there offers.
    pub capacity: Resources,
    /// How many nodes one allocation has, each with a pilot.
    #[serde(default = "one")]
    pub n_nodes: u32,
    /// Whether each of them begins and ends for itself, as the tasks of a job array.
    #[serde(default)]
    pub is_array: bool,
    /// Whether a submission may take effect although its manager has gone: until `Settings::submit_limit` is over.
    #[serde(default)]
    pub submits_late: bool,
    /// Whether a pilot's token may be read by what runs beside it: it serves once, and not for one started again.
    #[serde(default)]
    pub joins_once: bool,
    /// Pilots wanted even when there is nothing to do.
    pub n_pilots_min: u32,
    /// Never more pilots than this.
    pub n_pilots_max: u32,
    /// A pilot without work for so long is sent away.
    pub idle_timeout: Span,
    /// How long an allocation may run; `None`: no end.
    pub walltime: Option<Span>,
    /// How often to ask the platform for what is there.
    pub poll_interval: Span,
    /// What else is allowed.
    #[serde(default)]
    pub limits: PlatformLimits,
    /// How its cores may stand for more vCPUs than one each; `None`: they do not.
    #[serde(default)]
    pub scaling: Option<ScalingSpec>,
    /// What it costs, if that is known.
    #[serde(default)]
    pub price: Option<Price>,
}

fn one() -> u32 {
    1
}

impl PlatformSpec {
    /// What the platform's queue may care about of an allocation.
    pub fn shape(&self) -> Shape {
        Shape { cores: self.cores_of_allocation(), n_nodes: self.n_nodes, walltime: self.walltime }
    }

    /// Cores of one allocation, of all its nodes.
    pub fn cores_of_allocation(&self) -> u32 {
        self.capacity.cores.saturating_mul(self.n_nodes)
    }
}
