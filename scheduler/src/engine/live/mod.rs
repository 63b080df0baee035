//! Live state: a restart forgets it and pilots bring it back.

pub mod agreement;
pub mod by_size;
pub mod doubts;
pub mod effort;
pub mod last_chances;
pub mod leases;
pub mod lineup;
pub mod neighbours;
pub mod plan;
pub mod platform;
pub mod profiling;
pub mod standby;
pub mod suspects;
pub mod volatile;
