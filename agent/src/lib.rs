//! The pilot's shell: what touches the world for a pilot's decisions.
//!
//! Reading order: [`driver`] (the loop), [`client`] (the manager), [`spawn`] (processes), [`tasks`]
//! (from a template to a process), [`keeper`] (no orphans), [`node`] (what there is), [`spool`].

pub mod archive;
mod arrival;
pub mod client;
pub mod command;
mod denied;
pub mod driver;
pub mod gpus;
mod join;
pub mod keeper;
pub mod leftovers;
pub mod limits;
mod memory_killer;
pub mod node;
mod opened;
pub mod parts;
pub mod peers;
pub mod pin;
pub mod private;
mod ranks;
pub mod relay;
pub mod resident;
mod roster;
pub mod scratch;
pub mod sha256;
mod signals;
pub mod slots;
pub mod spawn;
pub mod spool;
pub mod staging;
mod starvation;
mod sys;
pub mod tasks;
#[cfg(test)]
mod testing;
mod watch;
