//! What tasks write, as it comes: asked for again and again by whoever follows it.

use serde::{Deserialize, Serialize};

use scheduler::ids::PilotId;

/// From where on. Both numbers come with each answer; at first they are 0.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FollowQuery {
    /// As people write sets of tasks: `0-9,12`; absent: all.
    pub tasks: Option<String>,
    /// [`Followed::since`]
    pub since: u64,
    /// [`Followed::after`]
    pub after: u64,
}

/// What tasks of a job have written since. What is in `pieces` was written before what is in `ended` and of
/// a later attempt, and is in memory only: some may be missing, and all of it comes once more when the attempt
/// has ended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Followed {
    /// Written by attempts that run, in the order in which it came.
    pub pieces: Vec<Piece>,
    /// To ask for what comes later.
    pub since: u64,
    /// What attempts wrote that have ended, all of it that is kept, in the order in which it came.
    pub ended: Vec<EndedOutput>,
    /// Tasks of which something is damaged in the store, and left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<TaskRange>,
    /// To ask for what comes later.
    pub after: u64,
    /// More has ended already: ask for it at once.
    pub is_more: bool,
    /// Nothing of what is followed is open any more.
    pub is_over: bool,
    /// How many bytes of each stream of an attempt are kept; absent: the manager is older than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
}

/// Tasks from a first to a last one, which is one of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskRange {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// Which of a task's two streams.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of what a running attempt writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Piece {
    /// The task.
    pub index: u64,
    /// Which attempt of it, from 1; from 1 again when the task was opened again.
    pub attempt: u32,
    /// Who runs it.
    pub pilot: PilotId,
    /// The pilot's number for this attempt.
    pub run: u64,
    /// Where it was written.
    pub stream: StreamName,
    /// So many bytes were written there before.
    pub at: u64,
    /// What.
    pub written: Written,
}

/// What an attempt wrote that has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndedOutput {
    /// The task.
    pub index: u64,
    /// Who ran it.
    #[serde(default)]
    pub pilot: Option<PilotId>,
    /// Which failed attempt; absent: it succeeded, or was killed.
    pub failed_attempt: Option<u32>,
    /// Whether the task has failed for good by it.
    pub is_final_failure: bool,
    /// Standard output.
    pub stdout: Written,
    /// Standard error.
    pub stderr: Written,
}

/// Bytes in JSON.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Written {
    /// The text.
    pub text: String,
    /// It is no text but bytes: each character stands for the byte of its number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_binary: bool,
}

impl Written {
    /// As text where that is possible.
    pub fn of(bytes: Vec<u8>) -> Written {
        match String::from_utf8(bytes) {
            Ok(text) => Written { text, is_binary: false },
            Err(error) => {
                let text = error.as_bytes().iter().map(|byte| char::from(*byte)).collect();
                Written { text, is_binary: true }
            }
        }
    }

    /// As it was written.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.is_binary {
            // A character that stands for no byte was not put there by us.
            true => self.text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect(),
            false => self.text.into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Written;

    #[test]
    fn bytes_come_back_as_they_were() {
        for bytes in [b"plain\n".to_vec(), "gr\u{fc}n".into(), vec![0xff, 0, b'a', 0x80], Vec::new()] {
            let json = serde_json::to_string(&Written::of(bytes.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Written>(&json).unwrap().into_bytes(), bytes, "{json}");
        }
        let stranger = Written { text: "\u{20ac}".into(), is_binary: true };
        assert_eq!(stranger.into_bytes(), b"?");
    }
}
