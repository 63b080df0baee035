//! The pilot protocol, version 1: what travels between a pilot and the manager. See docs/protocol.md.
//!
//! Four exchanges over HTTP, always begun by the pilot. Bodies are postcard, or JSON when the
//! content type says so. `register` is authorised by the join token, the others by the
//! session that `register` gave, both as `Authorization: Bearer …`.

use serde::{Deserialize, Serialize};

use scheduler::{
    ids::{JobId, PilotId},
    pull::{LeaveReason, Pull, Registered, Registration, none_if_absent},
    ranges::TaskSet,
    resources::Resources,
    results::{Report, TaskOutput},
    time::Span,
};

/// The version spoken here; also part of each path.
pub const VERSION: u32 = 1;
/// `RegisterRequest` → `RegisterAnswer`.
pub const REGISTER_PATH: &str = "/pilot/v1/register";
/// `PullRequest` → `scheduler::pull::PullAnswer`.
pub const PULL_PATH: &str = "/pilot/v1/pull";
/// `LeaveRequest` → `LeaveAnswer`.
pub const LEAVE_PATH: &str = "/pilot/v1/leave";
/// `TailsRequest` → `TailsAnswer`.
pub const TAILS_PATH: &str = "/pilot/v1/tails";
/// Tasks of which a pilot tells at a time, at most.
pub const N_TAILS_MAX: usize = 256;
/// Bytes that a pilot tells at a time, of all tasks and both streams.
pub const TAILS_BYTES_MAX: usize = 512 << 10;

/// What a pilot needs to find its way home. Given to it on standard input or in a file of mode 0600,
/// never in its arguments.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinDocument {
    /// Where the manager is, without a path: `https://host:port`.
    pub url: String,
    /// SHA-256 of the manager's certificate in hexadecimal; `None`: no TLS.
    pub certificate_sha256: Option<String>,
    /// Proves that the pilot belongs to the allocation with this tag.
    pub token: String,
    /// The allocation's tag.
    pub tag: String,
    /// Where the pilot may keep its files.
    pub folder: String,
    /// What the pilot offers, where that is not all of the node.
    pub capacity: Option<Resources>,
    /// How long the pilot may live, where the batch system does not say.
    pub walltime: Option<Span>,
    /// The pilot stops at once when this process ends.
    pub watch_pid: Option<u32>,
}

/// A pilot presents itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegisterRequest {
    /// The version the pilot speaks.
    pub version: u32,
    /// Who it is.
    pub registration: Registration,
}

/// The pilot is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegisterAnswer {
    /// Its number and the last report the manager has from it.
    pub registered: Registered,
    /// The session token for pulls.
    pub session: String,
    /// How long its pulls may be parked.
    pub poll_wait: Span,
    /// The name of its platform. The last of the message, since managers before 2026-12 do not send it.
    #[serde(default, deserialize_with = "none_if_absent", skip_serializing_if = "String::is_empty")]
    pub platform: String,
}

/// A pilot reports and asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PullRequest {
    /// Who asks.
    pub pilot: PilotId,
    /// What.
    pub pull: Pull,
}

/// A pilot says good-bye.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeaveRequest {
    /// Who.
    pub pilot: PilotId,
    /// What it has not reported yet.
    pub report: Option<Report>,
    /// Why.
    pub reason: LeaveReason,
}

/// Good-bye.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeaveAnswer {}

/// A pilot tells what running tasks have written, because somebody follows it. Nothing is decided by it and
/// nothing of it is kept: what counts comes with the task's report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TailsRequest {
    /// Who tells.
    pub pilot: PilotId,
    /// The number of its last report when it began to look: of tasks that ended since, this is old.
    pub n_reports: u64,
    /// What was written since the last time.
    pub tails: Vec<Tail>,
}

/// What a running task has written from some place on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tail {
    /// The task's job.
    pub job: JobId,
    /// Which attempt of the task it is.
    pub attempt: u32,
    /// The pilot's own number for this attempt: larger for what it began later.
    pub run: u64,
    /// So many bytes of standard output were written before; they were told, or left out.
    pub stdout_at: u64,
    /// The same of standard error.
    pub stderr_at: u64,
    /// The task, and what it has written.
    pub written: TaskOutput,
}

/// Of which tasks somebody follows what they write.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TailsAnswer {
    /// What was told is to be told again: a report came sooner.
    pub is_void: bool,
    /// None: nobody does, and nothing more is to be told.
    pub wanted: Vec<Wanted>,
}

/// Somebody follows a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// When it is another one than before, nothing is known of what was told before.
    pub watch: u64,
    /// The job.
    pub job: JobId,
    /// Its tasks; `None`: all.
    pub tasks: Option<TaskSet>,
}

/// Any refusal, always as JSON, with a status of 4xx or 5xx.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// What went wrong.
    pub error: ErrorBody,
}

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBody {
    /// One word for programs: `unauthorized`, `wrong-version`, `no-such-pilot`, `bad-request`, …
    pub code: String,
    /// A sentence for people: what was found and what would be right.
    pub message: String,
    /// Everything wrong with a job, one line each.
    #[serde(default)]
    pub problems: Vec<String>,
}
