//! The real engine and the real pilots in simulated time: the same code as in the manager and the agent, in a
//! world made from a seed. And the worlds of the five papers, in which the policies run.

pub mod adaptive;
pub mod alstb;
pub mod fairness;
pub mod faults;
pub mod grid;
pub mod matrix;
pub mod pattern;
pub mod report;
pub mod scenario;
pub mod tla;

mod agenda;
mod auditor;
mod draw;
mod world;
