//! What the states of jobs mean, in which OpenPBS and TORQUE agree.

use super::records::Record;
use crate::command::{self, BatchJob, BatchState};

/// Comments of queued jobs that never start unless somebody changes something.
const HOPELESS: [&str; 2] = ["Can Never Run", "Not Running: Queue not started"];

/// A job of a listing.
pub(super) fn job(id: &str, tag: String, state: &str, comment: &str, holds: &str) -> BatchJob {
    let state = state_of(state, comment, holds);
    // The comment of a job that runs says since when.
    let is_waiting = !matches!(state, BatchState::Running | BatchState::Suspended | BatchState::Ended);
    let reason = Some(comment).filter(|_| is_waiting).and_then(command::reason);
    BatchJob { id: id.to_owned(), tag, state, n_tasks: None, reason }
}

/// How a job of the history has ended. The substate of OpenPBS is 91 if somebody deleted it. TORQUE does not say it: a
/// status of 256 and a signal is that of a job which the server ended by that signal, as for `qdel`. Both end a job by
/// themselves when its walltime is over.
pub(super) fn end(record: &Record) -> Option<String> {
    let comment = record.attribute("comment").unwrap_or("");
    let of_torque = record.attribute("exit_status");
    let words = match (record.attribute("substate"), comment.rsplit_once(" and terminated by ")) {
        (Some("91"), Some((_, who))) => format!("CANCELLED by {who}"),
        (Some("91"), None) => "CANCELLED".to_owned(),
        _ => match (record.attribute("Exit_status"), of_torque) {
            (Some("-29"), _) => "TIMEOUT (Exit_status = -29)".to_owned(),
            (Some(status), _) => format!("Exit_status = {status}"),
            (None, Some("-11")) => "TIMEOUT (exit_status = -11)".to_owned(),
            (None, Some(status @ ("271" | "265"))) => format!("CANCELLED (exit_status = {status})"),
            (None, Some(status)) => format!("exit_status = {status}"),
            (None, None) => comment.to_owned(),
        },
    };
    command::reason(&words)
}

/// Where a job is that its own server, an OpenPBS with a history, has moved to another one. The record stays `M` when the
/// job has finished there; its substate changes then, if the other server has told. Until then it may wait or run.
pub(super) fn moved(record: &Record) -> (BatchState, Option<String>) {
    let comment = record.attribute("comment").unwrap_or("");
    if record.attribute("substate") == Some("92") {
        return (BatchState::Ended, command::reason(comment));
    }
    let moved = "moved to another server, which does not show it now";
    let said = match (comment, record.attribute("queue").unwrap_or("")) {
        ("", "") => moved.to_owned(),
        ("", queue) => format!("{moved}: queue = {queue}"),
        (comment, _) => format!("{moved}: {comment}"),
    };
    (BatchState::Queued, command::reason(&said))
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
        "R" | "E" | "B" => BatchState::Running,
        // By a scheduler or an operator; because the owner of a workstation is there.
        "S" | "U" => BatchState::Suspended,
        "C" | "F" | "X" => BatchState::Ended,
        _ => BatchState::Unknown(letter.to_owned()),
    }
}
