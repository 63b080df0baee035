//! The reason for which a batch job ended.

use serde::{Deserialize, Serialize};

/// The reason why a batch job ended, from the words of its batch system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// A user or an operator of the site cancelled it.
    Cancelled,
    /// The batch system needed its nodes, or its walltime was over.
    Platform,
}

impl EndCause {
    /// Returns the cause that these words state; `None`: they state none of these.
    pub fn of(words: &str) -> Option<EndCause> {
        match words.split_whitespace().next()? {
            "CANCELLED" => Some(EndCause::Cancelled),
            "PREEMPTED" | "TIMEOUT" | "DEADLINE" | "BOOT_FAIL" | "REVOKED" => Some(EndCause::Platform),
            _ => None,
        }
    }

    /// Returns whether these words say that the walltime was over.
    pub(in crate::engine) fn is_time(words: &str) -> bool {
        matches!(words.split_whitespace().next(), Some("TIMEOUT" | "DEADLINE"))
    }
}
