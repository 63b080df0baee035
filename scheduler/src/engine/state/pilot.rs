//! A pilot, as its records tell of it.

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
    /// Its allocation.
    pub allocation: AllocationId,
    /// Its platform.
    pub platform: PlatformId,
    /// The number it drew at its start.
    pub nonce: u64,
    /// Its node.
    pub node: NodeFacts,
    /// Its start, on the manager's clock.
    pub born_at: Time,
    /// When it registered.
    pub registered_at: Time,
    /// The number of its last report that was taken.
    pub acknowledged: u64,
    /// Why it gets nothing new.
    pub drain: Option<DrainCause>,
    /// When and why it left or was given up.
    pub ended: Option<(Time, String)>,
    /// Whether it left: it does not come back.
    pub has_left: bool,
    /// How often it came back after it was given up.
    pub n_returns: u64,
    /// Tasks it has finished successfully, first results only.
    pub n_done: u64,
    /// Failed attempts it has reported.
    pub n_failed: u64,
    /// Its node among all that there were.
    pub node_id: NodeId,
    /// How attempts have ended there.
    pub fortune: Fortune,
    /// How many of the tasks that ran when its batch job was ended have not succeeded since.
    pub n_accused: u32,
    /// Ends of other batch jobs that may have the same cause as its own.
    pub alike: Alike,
}

impl Pilot {
    /// Whether it has not left and was not given up.
    pub fn is_live(&self) -> bool {
        self.ended.is_none()
    }

    /// The number that its session is made with. A session of before it was given up is none any more.
    pub fn session(&self) -> u64 {
        self.nonce.wrapping_add(self.n_returns)
    }

    /// Where it runs.
    pub fn place(&self, id: PilotId) -> Place {
        Place { pilot: id, node: self.node_id, platform: self.platform }
    }

    /// Its end by walltime, if one is known.
    pub fn walltime_end(&self) -> Option<Time> {
        self.node.walltime_left.map(|left| self.registered_at + left)
    }

    /// Whether an attempt that the walltime ended had at least half of the pilot's life: a much longer
    /// one is not to be had there.
    pub fn had_its_chance(&self, usage: &Usage) -> bool {
        self.walltime_end().is_some_and(|end| usage.wall_us >= end.since(self.born_at).0 / 2)
    }
}
