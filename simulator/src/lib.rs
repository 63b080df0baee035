//! The live engine and the live pilots in simulated time: the same code as in the manager and the
//! agent, in a world made from a seed.

pub mod fairness;
pub mod faults;

mod agenda;
