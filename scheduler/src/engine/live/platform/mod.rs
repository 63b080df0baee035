//! The state of platforms that is known since the manager started.

pub mod limits;
pub mod platform_state;
pub mod queue_reasons;
pub mod short_lived;
pub mod vcpu_watch;
