//! The durable state, which only records change.

pub mod allocation;
pub mod asked;
pub mod crashes;
pub mod dependencies;
pub mod durable;
pub mod ends;
pub mod failing;
pub mod job;
pub mod learned;
pub mod pilot;
pub mod places;
pub mod policies;
pub mod vcpu_ratio;
pub mod weight_log;

pub use durable::Durable;
pub use job::{Job, Trouble};
pub use pilot::Pilot;
