//! Which tasks a pilot is given.

pub mod alone;
pub mod choice;
pub mod elsewhere;
pub mod here;
pub mod offer;
pub mod profiling;
pub mod remains;
pub mod serve;
pub mod shortlist;
