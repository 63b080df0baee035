//! A pilot, as it follows from the records.

use crate::{
    engine::{
        record::DrainCause,
        state::{
            ends::Alike,
            places::{Fortune, NodeId, Place},
        },
    },
    ids::{AllocationId, PilotId, PlatformId},
    pull::NodeFacts,
    results::Usage,
    time::Time,
};

/// A pilot's durable state.
#[derive(Clone, PartialEq, Debug)]
pub struct Pilot {
    /// The allocation that it belongs to.
    pub allocation: AllocationId,
    /// Its platform.
    pub platform: PlatformId,
    /// The random number that it drew at its start.
    pub nonce: u64,
    /// Its node.
    pub node: NodeFacts,
    /// The time of its start, on the manager's clock.
    pub born_at: Time,
    /// The time at which it registered.
    pub registered_at: Time,
    /// The number of its last accepted report.
    pub acknowledged: u64,
    /// The reason why it gets no new tasks.
    pub drain: Option<DrainCause>,
    /// The time and the reason of its leaving or loss.
    pub ended: Option<(Time, String)>,
    /// Whether it left: it does not come back.
    pub has_left: bool,
    /// How often it came back after it was lost.
    pub n_returns: u64,
    /// Number of tasks that it has completed, first results only.
    pub n_done: u64,
    /// Number of failed attempts that it has reported.
    pub n_failed: u64,
    /// The id of its node among all nodes that there were.
    pub node_id: NodeId,
    /// The outcomes of its attempts.
    pub fortune: Fortune,
    /// Number of tasks that ran when its batch job was ended and have not succeeded since.
    pub n_accused: u32,
    /// Ends of other batch jobs that may have the same cause as its own.
    pub alike: Alike,
}

impl Pilot {
    /// Returns whether it has neither left nor been lost.
    pub fn is_live(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns the number that its session is made with. A session from before a loss is invalid.
    pub fn session(&self) -> u64 {
        self.nonce.wrapping_add(self.n_returns)
    }

    /// Returns the place where it runs.
    pub fn place(&self, id: PilotId) -> Place {
        Place { pilot: id, node: self.node_id, platform: self.platform }
    }

    /// Returns the end of its walltime, if that is known.
    pub fn walltime_end(&self) -> Option<Time> {
        self.node.walltime_left.map(|left| self.registered_at + left)
    }

    /// Returns whether an attempt that the walltime ended had at least half of the pilot's life: pilots there
    /// cannot give it much more.
    pub fn had_its_chance(&self, usage: &Usage) -> bool {
        self.walltime_end().is_some_and(|end| usage.wall_us >= end.since(self.born_at).0 / 2)
    }
}
