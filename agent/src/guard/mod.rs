//! The guard, which leaves no orphans: it ends processes and removes folders of tasks whose pilot is gone.

pub mod keeper;
pub mod leftovers;
pub(crate) mod roster;
pub mod scratch;
