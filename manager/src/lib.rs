//! The manager: the engine's shell. Wiring only; see `driver` for the loop and `commit` for durability.

pub mod clock;
pub mod handle;
pub mod store;
pub mod tls;
pub mod tokens;
