//! The planner: which share of each platform each kind of task gets.

pub mod divide;
pub mod guide;
pub mod guiding;
pub mod nodes;
pub mod question;
pub mod runtimes;
