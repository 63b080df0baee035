//! Pilots that ended before they had done anything.

use crate::time::Time;

/// Allocations of a platform whose pilots ended in a row before they had done anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortLived {
    /// How many; those that were asked for before the last of them ended have the same cause, and are not counted again.
    pub(in crate::engine) n: u32,
    /// When the last of them ended.
    pub(in crate::engine) last_at: Time,
    /// Whether the time of its batch job was over: however long others live then, only a task that is done shows that
    /// its platform gives them enough.
    pub(in crate::engine) is_for_time: bool,
}

impl ShortLived {
    /// Whether the platform is to be asked for one pilot at a time. A single one may have been killed by somebody.
    pub(in crate::engine) fn is_failure(self) -> bool {
        self.n > 1
    }

    /// Whether that is so because its jobs' time is over before a task is done.
    pub(in crate::engine) fn is_for_time(self) -> bool {
        self.is_failure() && self.is_for_time
    }
}
