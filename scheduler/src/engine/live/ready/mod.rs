//! Ready tasks and the jobs that have some.

pub mod by_estimate;
pub mod parked_pulls;
pub mod queue;
pub mod waiting_line;
