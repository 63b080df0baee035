//! Answers to queries.

pub mod fairness;
pub mod profile;
pub mod queue_reasons;
pub mod reasons;
pub mod reasons_of_policies;
pub mod views;
pub mod weights;
