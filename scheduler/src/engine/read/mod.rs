//! Answers to queries.

pub mod explain;
pub mod explain_policies;
pub mod fairness;
pub mod profile;
pub mod queue_reasons;
pub mod views;
pub mod weights;
