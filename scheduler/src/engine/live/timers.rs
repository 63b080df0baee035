//! Timers.

use crate::ids::{PilotId, PlatformId, TaskId};

/// The purpose of a timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// A task's wait for its retry ends.
    Retry(TaskId),
    /// A parked pull or a pause ends, or a pilot has been silent too long.
    Pilot(PilotId),
    /// A new plan is due.
    Replan,
    /// Measurements of co-runners are recorded.
    Measured,
    /// Failed tasks that wait for other pilots are looked at.
    Retries,
    /// A platform is looked at.
    Platform(PlatformId),
    /// A platform's profiling run may be over.
    Profiling(PlatformId),
    /// The vCPU ratio of a platform is decided.
    Scaling(PlatformId),
    /// The grace period after a restart ends.
    Grace,
}
