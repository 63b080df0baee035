//! The reason for which an allocation waits in its queue.

use std::collections::BTreeSet;

use crate::{queue_reason::Outlook, time::Time};

/// A platform's reason for the wait of an allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueReason {
    /// The reason, in the platform's words.
    pub words: String,
    /// The time since when the platform gives this reason.
    pub since: Time,
    /// The time since when the allocation is held, in whatever words.
    pub(in crate::engine) held_since: Option<Time>,
    /// Whether it has been held for so long that no work waits for it any more.
    pub(in crate::engine) is_given_up: bool,
    /// Whether the platform itself says that it never starts.
    pub(in crate::engine) is_stuck: bool,
    /// The reasons that notices have told: a reason may come and go.
    pub(in crate::engine) told: BTreeSet<String>,
}

impl QueueReason {
    /// Returns the advice on what can be done about it; `None`: the allocation starts by itself.
    pub fn advice(&self) -> Option<&'static str> {
        if self.is_given_up {
            return Outlook::of(&self.words).advice_when_long();
        }
        match Outlook::of(&self.words) {
            Outlook::Ends if self.is_stuck => Outlook::Unknown.advice(),
            outlook => outlook.advice(),
        }
    }

    /// Returns the words and the advice, for a table.
    pub fn told_shortly(&self) -> String {
        match self.advice() {
            Some(advice) => format!("{} ({advice})", self.words),
            None => self.words.clone(),
        }
    }

    /// Returns whether the allocation never starts by itself, as far as is known.
    pub(in crate::engine) fn is_endless(&self) -> bool {
        self.is_stuck || matches!(Outlook::of(&self.words), Outlook::Never(_))
    }
}
