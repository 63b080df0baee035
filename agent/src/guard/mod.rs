//! The guard, which leaves no orphan: processes and folders of tasks whose pilot is gone.

pub mod keeper;
pub mod leftovers;
pub(crate) mod roster;
pub mod scratch;
