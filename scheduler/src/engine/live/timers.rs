//! Timers.

use crate::ids::{PilotId, PlatformId, TaskId};

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// A task may be tried again.
    Retry(TaskId),
    /// A parked pull ends, or a pilot has been silent too long.
    Pilot(PilotId),
    /// The policies are asked anew.
    Replan,
    /// What was measured of neighbours is written down.
    Measured,
    /// Tasks that have failed and wait for other pilots are looked at.
    Retries,
    /// A platform is looked at.
    Platform(PlatformId),
    /// A platform's profiling run may be over.
    Profiling(PlatformId),
    /// How many vCPUs a platform's cores stand for is decided.
    Scaling(PlatformId),
    /// The grace period after a restart ends.
    Grace,
}
