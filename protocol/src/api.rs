//! The user API, version 1: JSON over HTTP under `/api/v1`, authorised by `Authorization: Bearer …`.
//!
//! The OpenAPI document is generated from these types. Times are microseconds since the Unix epoch,
//! spans are microseconds.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde::{Deserialize, Deserializer, Serialize};

use scheduler::{
    engine::interface::{
        LeftThere, TaskFilter,
        declared_profile::Declared,
        views::{AllocationView, JobView, PilotView, PlatformView, StatusView, profile::ProfileView},
    },
    explain::Reason,
    ids::{JobId, PilotId, TaskId},
    results::FailureKind,
    time::{Span, Time},
};

pub use crate::pilot::{ErrorAnswer, ErrorBody};
use crate::{
    follow::TaskRange,
    job::{JobSpec, WorkflowSpec},
};

/// Where the API begins.
pub const PREFIX: &str = "/api/v1";
/// The version of this API; also part of each path.
pub const VERSION: u32 = 1;
/// Rows in one answer at most.
pub const ROWS_MAX: u64 = 10_000;

/// What the command line needs to reach a manager. A file of mode 0600 in the manager's folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccessFile {
    /// The version of this file.
    pub version: u32,
    /// Where the manager is: `https://host:port`.
    pub url: String,
    /// SHA-256 of the manager's certificate in hexadecimal; `None`: no TLS.
    pub certificate_sha256: Option<String>,
    /// Whom the token stands for.
    pub user: String,
    /// The token.
    pub token: String,
    /// The manager's process on its host.
    pub pid: u32,
    /// That host.
    pub host: String,
    /// The manager's version.
    pub manager_version: String,
    /// The manager's folder on its host: this file may be in a copy of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// Who answers. Needs no token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VersionInfo {
    /// The manager's version.
    pub manager: String,
    /// The version of this API.
    pub api: u32,
    /// The version of the pilot protocol.
    pub pilot_protocol: u32,
}

/// Totals and facts about the manager.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// Totals.
    pub totals: StatusView,
    /// The manager's version.
    pub version: String,
    /// Its folder.
    pub folder: String,
    /// The file of its configuration, if it was started with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Its process.
    pub pid: u32,
    /// When it started.
    pub started_at: Time,
    /// The store's size in bytes.
    pub store_bytes: u64,
    /// What is free of the manager's disk, in bytes, if it is so full that no job and no output is taken.
    #[serde(default)]
    pub low_disk_bytes: Option<u64>,
    /// Stores whose hosts wait for a person, of those that the asker's jobs may name; for operators of all.
    #[serde(default)]
    pub stores_waiting_for_person: Vec<String>,
    /// Who asks.
    pub user: String,
}

/// A job to be kept.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The job, resolved.
    pub spec: JobSpec,
    /// Any text drawn by the submitter; a second submission with the same is the first one again.
    #[serde(default)]
    pub submission_key: Option<String>,
}

/// The job is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Submitted {
    /// Its number.
    pub job: JobId,
    /// How many tasks it has.
    pub n_tasks: u64,
    /// Whether this submission had been made before.
    pub is_repeat: bool,
}

/// Several jobs that are accepted as a whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkflowRequest {
    /// The jobs, resolved, and what their tasks wait for.
    pub workflow: WorkflowSpec,
    /// Any text drawn by the submitter; a second submission with the same is the first one again.
    #[serde(default)]
    pub submission_key: Option<String>,
}

/// All jobs of a workflow are durable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowSubmitted {
    /// Its stages, as they were given.
    pub stages: Vec<StageSubmitted>,
    /// Whether this submission had been made before.
    pub is_repeat: bool,
}

/// A job of a workflow is durable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageSubmitted {
    /// The stage's name.
    pub name: String,
    /// Its number.
    pub job: JobId,
    /// How many tasks it has.
    pub n_tasks: u64,
}

/// All jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jobs {
    /// Oldest first.
    pub jobs: Vec<JobView>,
}

/// Which tasks a change is about.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskSelection {
    /// As people write sets of tasks: `0-9,12`; absent: all that the change can be about.
    #[serde(default)]
    pub tasks: Option<String>,
}

/// Which other jobs are to be removed, too.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PurgeRequest {
    /// Those of these that wait for the job and for which it waits are removed with it; without them it is refused.
    #[serde(default)]
    pub with: BTreeSet<JobId>,
}

/// The change is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changed {
    /// How many tasks were concerned.
    pub n_tasks: u64,
    /// How many done tasks ran without tasks which are open again (`on_failed_dependency: run`), or after such tasks. They
    /// stay as they are.
    #[serde(default)]
    pub n_stale: u64,
}

/// Why an attempt failed, for programs and for people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureRow {
    /// One word: `exit`, `signal`, `time-limit`, `memory-limit`, `start`, `node`, `walltime`, …
    pub word: String,
    /// A sentence.
    pub text: String,
    /// The kind with its numbers.
    pub kind: FailureKind,
}

/// A task and its last attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskRow {
    /// Its index in the job.
    pub index: u64,
    /// Where it is.
    pub state: TaskFilter,
    /// Which attempt the rest of the row is about; 0: none has ended.
    pub attempt: u32,
    /// The program's exit code, when it had one.
    pub exit_code: Option<i32>,
    /// Who ran that attempt.
    pub pilot: Option<PilotId>,
    /// Who holds the task now; looked up for the first 256 queued and running tasks of a page.
    #[serde(default)]
    pub held_by: Option<PilotId>,
    /// When it began; absent of one that never did, or whose pilot was lost: nobody told, and nothing else of it.
    pub started_at: Option<Time>,
    /// When it ended, or was known to be lost.
    #[serde(default)]
    pub ended_at: Option<Time>,
    /// Wall time.
    pub wall: Option<Span>,
    /// CPU time.
    pub cpu: Option<Span>,
    /// Peak resident memory.
    pub memory_bytes: Option<u64>,
    /// Why it failed.
    pub failure: Option<FailureRow>,
    /// Its parameters, in the sweep's order.
    #[serde(with = "crate::text::parameters")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, String>"))]
    pub parameters: Vec<(String, String)>,
    /// Values extracted from its output by the job's `results.extract`.
    pub extracted: BTreeMap<String, Option<String>>,
    /// Whether it wrote more than is kept, so that such values may be missing. Looked up with them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_cut: bool,
}

/// Which tasks to show, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TasksQuery {
    /// Only tasks in this state.
    pub state: TaskFilter,
    /// No task before this index.
    pub from: u64,
    /// Rows at most; 1 to 10000.
    pub limit: u64,
    /// With the tasks' parameters.
    pub parameters: bool,
    /// With the values extracted from their output.
    pub extract: bool,
}

impl Default for TasksQuery {
    fn default() -> TasksQuery {
        TasksQuery { state: TaskFilter::All, from: 0, limit: 100, parameters: false, extract: false }
    }
}

/// Whose output to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct OutputsQuery {
    /// Only that of tasks in this state.
    pub state: TaskFilter,
    /// No task before this index.
    pub from: u64,
    /// Rows at most; 1 to 10000.
    pub limit: u64,
}

impl Default for OutputsQuery {
    fn default() -> OutputsQuery {
        OutputsQuery { state: TaskFilter::All, from: 0, limit: 1000 }
    }
}

/// Which pilots to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PilotsQuery {
    /// Those that have ended too.
    pub ended: bool,
}

/// Which jobs to watch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EventsQuery {
    /// Numbers of jobs, separated by commas; absent: all.
    pub job: Option<String>,
}

/// A page of tasks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tasks {
    /// Ascending by index.
    pub tasks: Vec<TaskRow>,
    /// Ask for `from` this index for the next page; absent: there is none.
    pub next: Option<u64>,
}

/// One task with all its attempts and the command it runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskDetail {
    /// The task.
    pub id: TaskId,
    /// Where it is and its last attempt.
    pub row: TaskRow,
    /// The pilot that holds it now.
    pub held_by: Option<PilotId>,
    /// When it may be tried again.
    pub retry_at: Option<Time>,
    /// Failed attempts, oldest first.
    pub failed_attempts: Vec<TaskRow>,
    /// The command as it is run.
    pub command: Vec<String>,
    /// Where it is run.
    pub workdir: String,
}

/// What tasks wrote.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outputs {
    /// Ascending by task.
    pub outputs: Vec<OutputRow>,
    /// Tasks of which something is damaged in the store, and left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<TaskRange>,
    /// Ask for `from` this index for the next page; absent: there is none.
    pub next: Option<u64>,
}

/// What a task's last kept attempt wrote. Bytes that are not UTF-8 are replaced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputRow {
    /// The task.
    pub index: u64,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// All bytes of standard output, where they are not UTF-8: each character stands for the byte of its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_latin1: Option<String>,
    /// The same of standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_latin1: Option<String>,
}

impl OutputRow {
    /// What a task wrote.
    pub fn new(index: u64, stdout: &[u8], stderr: &[u8]) -> OutputRow {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let latin1 = |bytes: &[u8]| {
            let is_text = std::str::from_utf8(bytes).is_ok();
            (!is_text).then(|| bytes.iter().copied().map(char::from).collect())
        };
        OutputRow {
            index,
            stdout: text(stdout),
            stderr: text(stderr),
            stdout_latin1: latin1(stdout),
            stderr_latin1: latin1(stderr),
        }
    }

    /// Standard output, byte for byte.
    pub fn stdout_bytes(&self) -> Cow<'_, [u8]> {
        bytes_of(&self.stdout, self.stdout_latin1.as_deref())
    }

    /// Standard error, byte for byte.
    pub fn stderr_bytes(&self) -> Cow<'_, [u8]> {
        bytes_of(&self.stderr, self.stderr_latin1.as_deref())
    }
}

fn bytes_of<'a>(text: &'a str, latin1: Option<&str>) -> Cow<'a, [u8]> {
    match latin1 {
        // A character that stands for no byte was not put there by us.
        Some(latin1) => latin1.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect(),
        None => Cow::Borrowed(text.as_bytes()),
    }
}

/// All pilots.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pilots {
    /// By number.
    pub pilots: Vec<PilotView>,
}

/// All platforms.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Platforms {
    /// In the order they were attached.
    pub platforms: Vec<PlatformView>,
}

/// Which allocations to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AllocationsQuery {
    /// Those that have ended too.
    pub ended: bool,
}

/// Allocations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Allocations {
    /// By number.
    pub allocations: Vec<AllocationView>,
}

/// How an allocation is to be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CancelRequest {
    /// Kill what its pilot runs instead of waiting for it; it runs again elsewhere.
    pub now: bool,
}

/// Other limits of a platform. What is absent stays; `null`: no limit.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LimitsRequest {
    /// Pilots, those that are asked for included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pilots_max: Option<u32>,
    /// Allocations whose pilots have not come.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub queued_max: Option<Option<u32>>,
    /// Allocations asked for within any minute.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub submissions_per_minute: Option<Option<u32>>,
    /// Core-hours of all allocations, past and present.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub core_hours: Option<Option<f64>>,
    /// Core-hours of the tasks of any one user.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub user_core_hours: Option<Option<f64>>,
    /// What all allocations may cost, in the platform's currency.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub budget: Option<Option<f64>>,
}

/// What is there, be it `null`.
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Why something is as it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The decisive reason first.
    pub reasons: Vec<ReasonRow>,
}

/// One reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReasonRow {
    /// A sentence.
    pub text: String,
    /// The reason with its numbers.
    pub reason: Reason,
}

/// What was learned of applications, by name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profiles {
    /// All of them.
    pub profiles: Vec<ProfileView>,
}

/// The policies, and what became of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoliciesAnswer {
    /// Each layer.
    pub layers: Vec<LayerView>,
    /// What operators have set, the latest last.
    pub history: Vec<LayerChange>,
}

/// The policy of a layer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LayerView {
    /// The layer.
    pub layer: String,
    /// Its policy.
    pub policy: String,
    /// The one that the configuration names.
    pub configured: String,
    /// Those that there are.
    pub choices: Vec<String>,
}

/// Somebody has set the policy of a layer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LayerChange {
    /// When.
    pub at: Time,
    /// Who.
    pub by: String,
    /// The layer.
    pub layer: String,
    /// Its policy before.
    pub before: String,
    /// Its policy since.
    pub policy: String,
    /// Whether the configuration has changed since, which takes no notice of it.
    pub is_over: bool,
}

/// Another policy for a layer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// The layer.
    pub layer: String,
    /// Its policy.
    pub policy: String,
}

/// Tasks of a job that are to run once more, on a node that is nobody else's meanwhile.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProfilingRequest {
    /// The platform.
    pub platform: String,
    /// How many at a time of its application, with those of other such jobs; 1 or more.
    pub slots: u64,
    /// How many of them, the first ones; 1 or more, and all if there are fewer.
    pub tasks: u64,
}

/// What is to be forgotten.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ForgetRequest {
    /// The application, as jobs name it.
    pub application: String,
}

/// What an application is said to be like.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeclareRequest {
    /// The application, as jobs name it.
    pub application: String,
    /// What is said of it in place of what was; nothing: it is taken back.
    pub declared: Option<Declared>,
}

/// Which configuration is to be read again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ReloadRequest {
    /// The file, as an absolute path without links; absent: that with which the manager was started.
    pub config: Option<String>,
}

/// What became of the platforms of a configuration that was read again, by their names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reloaded {
    /// Those that are attached now.
    pub attached: Vec<String>,
    /// Those whose limits, number of pilots, or times of waiting are what it says now.
    pub changed: Vec<String>,
    /// Those of which it says something else that waits for the next start of the manager.
    pub waiting: Vec<String>,
    /// Which fields of their entries are others, of those in `changed` and `waiting`.
    #[serde(default)]
    pub fields: std::collections::BTreeMap<String, Vec<String>>,
    /// Those that were detached, whose entries have stood there all the time.
    pub detached: Vec<String>,
    /// New ones that are not attached, as their pilots need TLS, which this manager does not speak.
    #[serde(default)]
    pub without_tls: Vec<String>,
    /// Whether it says other quotas of users than before: they hold from now on.
    #[serde(default)]
    pub quotas: bool,
    /// Those that it does not list: they go on until the next start.
    pub unlisted: Vec<String>,
    /// Whether settings of something else than platforms are others: they wait for the next start.
    pub others_wait: bool,
    /// Which fields of the file these are, like `limits.grace`.
    #[serde(default)]
    pub others: Vec<String>,
}

/// How the manager is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShutdownRequest {
    /// Kill running tasks instead of waiting for them.
    #[serde(default)]
    pub now: bool,
}

/// Whether the manager has ended all its pilots.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShutDown {
    /// Nothing is left: the manager goes now. Else pilots still end what they run; ask again to wait on.
    pub is_over: bool,
    /// How long the manager then waits at most until its platforms have taken away what was there, seconds.
    #[serde(default)]
    pub leave_limit_seconds: f64,
}

/// How long to wait for what a manager leaves on platforms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LeftQuery {
    /// Seconds, 20 at most.
    pub wait_seconds: u64,
}

/// What a manager that was shut down leaves on platforms.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftBehind {
    /// Whether that is known: else ask again, the manager has not ended yet.
    pub is_known: bool,
    /// Batch jobs that it could not cancel, or of which nobody says whether they are there.
    pub left: Vec<LeftThere>,
}

/// What an event stream carries, one JSON object an event; the event's name is the variant in kebab case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "kebab-case")]
#[allow(clippy::large_enum_variant)] // Nearly all events are of the large kind, and few are held at a time.
pub enum StreamEvent {
    /// A job's counts or state; also once at the beginning for each job asked for.
    Job {
        /// The job.
        job: JobView,
    },
    /// An attempt failed.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// A sentence.
        text: String,
        /// Whether it will not be tried again.
        is_final: bool,
        /// Where.
        pilot: PilotId,
    },
    /// A platform does not do as it should.
    PlatformFailed {
        /// Its name.
        platform: String,
        /// In its own words.
        what: String,
    },
}
