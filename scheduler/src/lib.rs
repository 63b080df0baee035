//! The brain of Pilotfish: everything that decides, and nothing that touches the world.
//!
//! No clock, no thread, no file, no socket, no unseeded randomness: time comes in with each event.
//! So the live manager, the simulator and the fault tests run the same code.
//!
//! Reading order: [`ids`], [`ranges`], [`resources`], [`results`], [`pull`] (what a pilot and the
//! engine say), [`engine`] (jobs, leases, pilots, allocations), [`policy`] (who is served with
//! what), [`pilot`] (a pilot's own decisions), [`explain`] (why something waits).

pub mod digest;
pub mod edges;
pub mod engine;
pub mod estimates;
pub mod explain;
pub mod ids;
pub mod pilot;
pub mod policy;
pub mod pull;
pub mod queue_reason;
pub mod ranges;
pub mod resources;
pub mod results;
pub mod rng;
pub mod size;
pub mod time;
