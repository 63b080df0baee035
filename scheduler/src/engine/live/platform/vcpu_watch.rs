//! Measurements of the vCPUs of a cloud.

use std::collections::BTreeMap;

use crate::{
    engine::interface::platform::scaling::Ratio,
    policy::scaling::Seen,
    time::{Span, Time},
};

/// What is known of a platform's vCPUs in this life of the manager.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// What pilots have reported since the last decision.
    pub(in crate::engine) seen: Seen,
    /// Of the time of vCPUs in it: that which tasks wanted to compute in while others had the CPUs.
    pub(in crate::engine) starved: Span,
    /// When the next is due.
    pub(in crate::engine) due_at: Option<Time>,
    /// When too many attempts failed the last time.
    pub(in crate::engine) failed_at: Option<Time>,
    /// Whether the cloud has been asked for something and has not answered: it is asked for one thing at a time.
    pub(in crate::engine) is_asked: bool,
    /// What the cloud's hosts were given last, by their ids.
    pub(in crate::engine) set: BTreeMap<String, Ratio>,
    /// Whether the cloud's hosts cannot be given anything: pilots do it, until something else is wanted.
    pub(in crate::engine) falls_back: bool,
    /// What is wrong, in words.
    pub(in crate::engine) trouble: Option<String>,
}
