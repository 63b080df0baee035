//! Ready tasks and their jobs.

pub mod by_estimate;
pub mod parked_pulls;
pub mod queue;
pub mod waiting_line;
