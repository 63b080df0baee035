//! Live pilots.

pub mod agreement;
pub mod doubts;
pub mod keep;
pub mod neighbours;
pub mod pilot_state;
