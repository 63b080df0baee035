//! The reason for which a batch job ended.

use serde::{Deserialize, Serialize};

/// Why a batch job ended, in the words of its batch system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// Somebody cancelled it.
    Cancelled,
    /// The batch system wanted its nodes, or its time was over.
    Platform,
}

impl EndCause {
    /// What these words say of the cause; `None`: nothing.
    pub fn of(words: &str) -> Option<EndCause> {
        match words.split_whitespace().next()? {
            "CANCELLED" => Some(EndCause::Cancelled),
            "PREEMPTED" | "TIMEOUT" | "DEADLINE" | "BOOT_FAIL" | "REVOKED" => Some(EndCause::Platform),
            _ => None,
        }
    }

    /// Whether these words say that the job's time was over.
    pub(in crate::engine) fn is_time(words: &str) -> bool {
        matches!(words.split_whitespace().next(), Some("TIMEOUT" | "DEADLINE"))
    }
}
