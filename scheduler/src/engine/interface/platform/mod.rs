//! Platforms and their allocations, as operators and platforms describe them.

pub mod allocation;
pub mod platform_spec;
pub mod price;
pub mod queue_load;
pub mod scaling;
pub mod shape;
