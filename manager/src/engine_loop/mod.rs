//! The thread of the engine, and all around it that makes records durable and performs effects.

pub mod clock;
pub(crate) mod commit;
pub(crate) mod driver;
pub(crate) mod failure_log;
pub(crate) mod farewell;
pub mod handle;
pub(crate) mod perform;
