//! Connections: addresses, answers and their failures in words.

pub mod address;
pub mod answers;
pub mod cause;
