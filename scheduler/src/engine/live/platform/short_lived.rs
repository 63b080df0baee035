//! Pilots that ended before they had done anything.

use crate::time::Time;

/// Allocations in a row whose pilots ended before they had done anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortLived {
    /// Number of them. Allocations requested before the last of them ended have the same cause and are not
    /// counted again.
    pub(in crate::engine) n: u32,
    /// The time at which the last of them ended.
    pub(in crate::engine) last_at: Time,
    /// Whether the last batch job reached its time limit. Then only a completed task, and no long-lived
    /// pilot, shows that the platform gives enough time.
    pub(in crate::engine) is_for_time: bool,
}

impl ShortLived {
    /// Returns whether the platform gets one request at a time. A single short life may have been ended by a
    /// person.
    pub(in crate::engine) fn is_failure(self) -> bool {
        self.n > 1
    }

    /// Returns whether that is because batch jobs reach their time limit before a task is done.
    pub(in crate::engine) fn is_for_time(self) -> bool {
        self.is_failure() && self.is_for_time
    }
}
