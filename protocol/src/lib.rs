//! What travels: the job file and the sweep, the pilot protocol, the user API.

pub mod api;
pub mod codec;
pub mod files;
pub mod follow;
pub mod job;
pub mod net;
pub mod peers;
pub mod pilot;
pub mod policies;
mod problem;
pub mod sweep;
pub mod template;
pub mod text;
pub mod users;
