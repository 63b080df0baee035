//! Bundling: how many of the chosen job's tasks go to the pilot in one answer.
//!
//! [`Bundling`] counts tasks and is what the engine asks. [`by_estimate`] knows how long each will take; the
//! simulator asks it.

pub mod by_estimate;
mod guided;
mod single;

use serde::{Deserialize, Serialize};

/// What a bundling policy may look at.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Tasks of the job that could begin on the pilot at once.
    pub n_startable: u64,
    /// Tasks that may be sent ahead of need, those startable included.
    pub n_room: u64,
    /// Tasks of the job that wait.
    pub n_ready: u64,
    /// Pilots that take part and can run the job, the asking one included.
    pub n_pilots: u64,
    /// Tasks that keep the pilot busy for so short a time that fewer are not worth a message.
    pub n_brief: u64,
}

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bundling {
    /// As many as the pilot needs to stay busy, fewer at the job's tail: see `guided.rs`.
    #[default]
    Guided,
    /// One task an answer: see `single.rs`.
    Single,
}

impl Bundling {
    /// How many tasks to send; at most `n_ready`, 0 when there is no room.
    pub fn size(self, situation: Situation) -> u64 {
        match self {
            Bundling::Guided => guided::size(situation),
            Bundling::Single => single::size(situation),
        }
    }
}
