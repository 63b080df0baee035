//! The reason for which an allocation waits in its queue.

use std::collections::BTreeSet;

use crate::{queue_reason::Outlook, time::Time};

/// What a platform says of an allocation that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueReason {
    /// In its words.
    pub words: String,
    /// Since when it says so.
    pub since: Time,
    /// Since when somebody holds it, whatever the words.
    pub(in crate::engine) held_since: Option<Time>,
    /// Whether it has been held for so long that it is not waited for any more.
    pub(in crate::engine) is_given_up: bool,
    /// Whether the platform itself says that it never begins.
    pub(in crate::engine) is_stuck: bool,
    /// What was told of it: words may come and go.
    pub(in crate::engine) told: BTreeSet<String>,
}

impl QueueReason {
    /// What can be done about it; `None`: it begins by itself.
    pub fn advice(&self) -> Option<&'static str> {
        if self.is_given_up {
            return Outlook::of(&self.words).advice_when_long();
        }
        match Outlook::of(&self.words) {
            Outlook::Ends if self.is_stuck => Outlook::Unknown.advice(),
            outlook => outlook.advice(),
        }
    }

    /// For a table: its words, and what can be done.
    pub fn told_shortly(&self) -> String {
        match self.advice() {
            Some(advice) => format!("{} ({advice})", self.words),
            None => self.words.clone(),
        }
    }

    /// Whether it never begins by itself, as far as is known.
    pub(in crate::engine) fn is_endless(&self) -> bool {
        self.is_stuck || matches!(Outlook::of(&self.words), Outlook::Never(_))
    }
}
