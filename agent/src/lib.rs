//! The pilot's shell: what touches the world for a pilot's decisions.
//!
//! Reading order: [`driver`] (the loop), [`session`] (the manager), [`spawn`] (processes), [`tasks`]
//! (from a template to a process), [`guard`] (no orphans), [`node`] (what there is).

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
