//! What the states of jobs mean, in which OpenPBS and TORQUE agree.

use super::records::Record;
use crate::command::{self, BatchJob, BatchState};

/// Comments of queued jobs that never start unless somebody changes something.
const HOPELESS: [&str; 2] = ["Can Never Run", "Not Running: Queue not started"];

/// A job of a listing.
pub(super) fn job(id: &str, tag: String, state: &str, comment: &str, holds: &str) -> BatchJob {
    let state = state_of(state, comment, holds);
    // The comment of a job that runs says since when.
    let is_waiting = !matches!(state, BatchState::Running | BatchState::Ended);
    let reason = Some(comment).filter(|_| is_waiting).and_then(command::reason);
    BatchJob { id: id.to_owned(), tag, state, n_tasks: None, reason }
}

/// How a job of the history has ended. Its substate is 91 if somebody deleted it.
pub(super) fn end(record: &Record) -> Option<String> {
    let comment = record.attribute("comment").unwrap_or("");
    let words = match (record.attribute("substate"), comment.rsplit_once(" and terminated by ")) {
        (Some("91"), Some((_, who))) => format!("CANCELLED by {who}"),
        (Some("91"), None) => "CANCELLED".to_owned(),
        _ => match record.attribute("Exit_status") {
            Some(status) => format!("Exit_status = {status}"),
            None => comment.to_owned(),
        },
    };
    command::reason(&words)
}

pub(super) fn state_of(letter: &str, comment: &str, holds: &str) -> BatchState {
    // Comments of TORQUE end with an empty line.
    let comment = comment.split_whitespace().collect::<Vec<_>>().join(" ");
    match letter {
        "Q" if HOPELESS.iter().any(|hopeless| comment.starts_with(hopeless)) => BatchState::Stuck(comment),
        "Q" | "W" | "T" => BatchState::Queued,
        // TORQUE leaves the comment that the job had before it was held.
        "H" if comment.is_empty() || comment.starts_with("Not Running") => match holds.is_empty() {
            true => BatchState::Stuck("held".to_owned()),
            false => BatchState::Stuck(format!("held, Hold_Types = {holds}")),
        },
        "H" => BatchState::Stuck(format!("held: {comment}")),
        // Exiting: the node is ours until its output has been copied.
        "R" | "S" | "U" | "E" | "B" => BatchState::Running,
        "C" | "F" | "X" => BatchState::Ended,
        _ => BatchState::Unknown(letter.to_owned()),
    }
}
