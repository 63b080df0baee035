//! Handlers of events.

pub mod jobs;
pub mod operators;
pub mod pilots;
pub mod policies;
pub mod profile;
pub mod users;
pub mod workflows;
