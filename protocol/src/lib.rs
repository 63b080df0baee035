//! What travels: the job file and the sweep, the pilot protocol, the user API.

pub mod address;
pub mod answers;
pub mod api;
pub mod cause;
pub mod codec;
pub mod follow;
pub mod harmless;
pub mod job;
pub mod kept;
pub mod objects;
pub mod pack;
pub mod parameters;
pub mod parts;
pub mod peers;
pub mod pilot;
pub mod policies;
pub mod private;
mod problem;
pub mod sweep;
pub mod template;
pub mod ulimits;
pub mod units;
pub mod users;
