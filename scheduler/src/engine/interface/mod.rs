//! The inputs and outputs of the engine: events and queries, effects and answers.

pub mod answer;
pub mod declared_profile;
pub mod effect;
pub mod event;
pub mod job_request;
pub mod notice;
pub mod planning;
pub mod platform;
pub mod query;
pub mod refusal;
pub mod settings;
pub mod users;
pub mod views;
pub mod workflow;

pub use answer::{Answer, LeftThere};
pub use effect::Effect;
pub use event::{Caller, Event, JobChange, PlatformChange};
pub use job_request::JobRequest;
pub use notice::{Doubt, Notice};
pub use planning::{PlanAnswer, PlanRequest};
pub use platform::{
    allocation::{KnownAllocation, ListedAllocation, SubmitOutcome},
    platform_spec::{PlatformLimits, PlatformMode, PlatformSpec},
    queue_load::QueueLoad,
    scaling::{ScalingSpec, ScalingWay},
};
pub use query::{Query, TaskFilter};
pub use refusal::Refusal;
pub use workflow::{On, Stage};

/// Identifies a request, so that the manager can send the answer to its sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);
