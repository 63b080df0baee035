//! Ready tasks and the jobs that have some.

pub mod by_size;
pub mod lineup;
pub mod parked;
pub mod standby;
