//! The pilot's shell: what touches the world for a pilot's decisions.

pub mod keeper;
pub mod resident;
pub mod spawn;
