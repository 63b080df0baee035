//! Calls of the system for which the standard library has none.

pub(crate) mod pipe;
