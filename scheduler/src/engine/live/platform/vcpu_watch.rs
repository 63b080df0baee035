//! The measurements for the vCPU ratio of a platform.

use std::collections::BTreeMap;

use crate::{
    engine::interface::platform::scaling::Ratio,
    policy::scaling::Seen,
    time::{Span, Time},
};

/// The measurements and problems of a platform's vCPU ratio in this epoch.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// The results that pilots have reported since the last decision.
    pub(in crate::engine) seen: Seen,
    /// The part of that time in which tasks wanted to compute while others had the CPUs.
    pub(in crate::engine) starved: Span,
    /// The time of the next decision.
    pub(in crate::engine) due_at: Option<Time>,
    /// The last time at which too many attempts failed.
    pub(in crate::engine) failed_at: Option<Time>,
    /// Whether a request to the cloud is under way: there is one at a time.
    pub(in crate::engine) is_asked: bool,
    /// The ratios that the cloud's hosts last got, by their ids.
    pub(in crate::engine) set: BTreeMap<String, Ratio>,
    /// Whether the cloud's hosts cannot get a ratio: pilots apply it, until the settings change.
    pub(in crate::engine) falls_back: bool,
    /// The problem, in words.
    pub(in crate::engine) trouble: Option<String>,
}
