//! Measurements of applications and platforms.

pub mod applications;
pub mod declared_profile;
pub mod interference;
pub mod queue_wait;
pub mod statistics;
