//! Live state: a restart forgets it and pilots bring it back.

pub mod effort;
pub mod job_leases;
pub mod last_chances;
pub mod leases;
pub mod pilots;
pub mod plan;
pub mod platform;
pub mod profiling;
pub mod ready;
pub mod suspects;
pub mod timers;
pub mod volatile;
