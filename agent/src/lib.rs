//! The agent: runs a pilot on a node. The decisions are those of `scheduler::pilot`; this crate has the I/O
//! for them.
//!
//! Reading order: [`driver`] (the loop), [`session`] (the connection to the manager), [`spawn`] (processes),
//! [`tasks`] (from a template to a process), [`guard`] (no orphans), [`node`] (resources of the node).

pub mod archive;
pub mod command;
pub mod driver;
pub mod guard;
pub mod node;
pub mod peers;
pub mod relay;
pub mod resident;
pub mod session;
pub mod spawn;
pub mod staging;
pub mod sys;
pub mod tasks;
#[cfg(test)]
mod testing;
