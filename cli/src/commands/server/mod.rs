//! Commands of a manager: started, stopped, watched, shared.

pub(crate) mod metrics;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod store;
pub(crate) mod user;
