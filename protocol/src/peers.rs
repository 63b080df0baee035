//! How pilots of a platform find each other: each tells the manager where it can be reached and which objects it
//! has, and is told who else is there. What they ask of each other goes past the manager. See docs/protocol.md.

use scheduler::{digest::Digest, ids::PilotId};
use serde::{Deserialize, Serialize};

/// `PeersRequest` → `PeersAnswer`, by a pilot's session.
pub const PEERS_PATH: &str = "/pilot/v1/peers";
/// `HuntRequest` → `HuntAnswer`, by the session of a pilot that has nothing to do and cannot reach all others.
pub const HUNT_PATH: &str = "/pilot/v1/hunt";
/// `GET` of an object from a pilot; the digest follows.
pub const PEER_OBJECTS_PATH: &str = "/peer/v1/objects";
/// `GET`: how many tasks could be taken from a pilot, as a number.
pub const PEER_LOAD_PATH: &str = "/peer/v1/load";
/// `POST` of the number of a pilot that has nothing to do: half of what could be taken is on its way to it, by the
/// manager. Answered with how many tasks that is.
pub const PEER_STEAL_PATH: &str = "/peer/v1/steal";
/// Objects named in one request at most.
pub const N_TOLD_MAX: usize = 10_000;

/// Where a pilot can be reached by others of its platform.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Who.
    pub pilot: PilotId,
    /// `https://host:port`.
    pub url: String,
    /// SHA-256 of its certificate.
    pub certificate_sha256: Digest,
}

/// Bytes of files since the pilot began, by where they came from; and tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Moved {
    /// Of inputs that were in the node's cache already.
    pub from_cache: u64,
    /// From other pilots.
    pub from_peers: u64,
    /// From the manager.
    pub from_manager: u64,
    /// Tasks that it has taken from others.
    pub n_taken: u64,
}

/// A pilot says what it has and asks who has what.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeersRequest {
    /// Who asks, as others reach it.
    pub me: Peer,
    /// `gained` is all that it has: what the manager knew of it before is void.
    pub is_all: bool,
    /// Objects that have come since the last time.
    pub gained: Vec<Digest>,
    /// Those that are not there any more.
    pub lost: Vec<Digest>,
    /// Those that are being fetched from the manager, so that others go on waiting for them.
    pub fetching: Vec<Digest>,
    /// Those that it is about to fetch.
    pub wanted: Vec<Digest>,
    /// Those of which it only wants to know who has them.
    pub asked: Vec<Digest>,
    /// Sums for the manager's figures.
    pub moved: Moved,
}

/// A pilot wants some of what waits at others, of whom it cannot reach all: the manager asks one for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HuntRequest {
    /// Who.
    pub pilot: PilotId,
}

/// What the one gives that is asked comes as all tasks do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HuntAnswer {
    /// Whether one is: tasks wait there.
    pub is_any_asked: bool,
}

/// Where a wanted object is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// Which.
    pub sha256: Digest,
    /// Some of those that have it.
    pub at: Vec<Peer>,
    /// Nobody has it, and somebody fetches it: it is to be asked for again in a moment. Else, where nobody has it,
    /// it is for who asks to fetch it from the manager.
    pub is_coming: bool,
}

/// Who else is there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeersAnswer {
    /// What pilots of the platform show to each other, as `Authorization: Bearer …`. Another one in each life of the
    /// manager.
    pub token: String,
    /// Whether the manager knows what the pilot has told before; if not, it is to tell all.
    pub is_known: bool,
    /// Some of the others.
    pub peers: Vec<Peer>,
    /// How many pilots there are with it.
    pub n_peers: u64,
    /// One for each wanted object, in their order, then one for each that was asked after.
    pub places: Vec<Place>,
}
