//! Live pilots.

pub mod agreement;
pub mod doubts;
pub mod node_applications;
pub mod pilot_state;
pub mod reservation;
