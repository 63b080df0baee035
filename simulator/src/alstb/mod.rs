//! The world of paper 002 (Xiao, Zhang, Chen and Yu, "An Application-Level Scheduling with Task Bundling
//! Approach for Many-Task Computing in Heterogeneous Environments", NPC 2012): applications on nodes that pull
//! bundles of tasks.

pub mod ahead;
mod draws;
pub mod outcome;
pub mod published;
mod reproduce;
pub mod scene;
pub mod world;

pub use reproduce::reproduce;

#[cfg(test)]
mod tests;
