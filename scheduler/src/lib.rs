//! The engine of Pilotfish: it decides everything and does no I/O.
//!
//! It uses no clock, thread, file, socket or unseeded random numbers: time comes in with each event.
//! Therefore the manager, the simulator and the fault tests run the same code.
//!
//! Reading order: [`ids`], [`ranges`], [`resources`], [`results`], [`pull`] (messages between pilot and
//! engine), [`engine`] (jobs, leases, pilots, allocations), [`policy`] (the policies of all layers),
//! [`pilot`] (a pilot's own decisions), [`explain`] (why something waits).

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
