//! Files by their contents: what travels to the manager's store of them and from it. See docs/protocol.md.

use scheduler::{digest::Digest, ids::JobId, ranges::TaskSet};
use serde::{Deserialize, Serialize};

/// `GET` and `PUT` of an object by a pilot, after its session; the digest follows.
pub const PILOT_OBJECTS_PATH: &str = "/pilot/v1/objects";

/// `POST` of a [`PackRequest`] by a pilot: the answer is a pack ([`crate::files::pack`]) of those files that the manager has.
/// `PUT` of a pack of what a task has left is answered with [`Unpacked`].
pub const PILOT_PACKS_PATH: &str = "/pilot/v1/packs";

/// What a pilot asks of a task's files: `JOB/INDEX/inputs` follow.
pub const PILOT_TASKS_PATH: &str = "/pilot/v1/tasks";

/// `POST` of [`FileWaits`] by a pilot, after its session.
pub const PILOT_WAITS_PATH: &str = "/pilot/v1/waits";

/// Files of [`FileWaits`] at most.
pub const N_WAITS_MAX: usize = 64;

/// What is said of each has so many bytes at most.
pub const WAIT_BYTES_MAX: usize = 2_000;

/// The manager forgets what a pilot has not said again after so many seconds.
pub const WAITS_KEPT_S: u64 = 30;

/// How a pilot reaches a file in a store: `?job=…&place=store://…&way=read|write` follow. See [`StoreWay`].
pub const PILOT_STORES_PATH: &str = "/pilot/v1/stores";

/// `GET` and `PUT` of such a file through the manager, with the same query.
pub const PILOT_STORE_FILES_PATH: &str = "/pilot/v1/stores/file";

/// Objects asked after in one request at most.
pub const N_ASKED_MAX: usize = 10_000;

/// Which of these are not there?
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MissingRequest {
    /// At most ten thousand.
    pub sha256: Vec<Digest>,
}

/// These are not there. What is there stays for a day at least.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missing {
    /// Their digests, each once.
    pub sha256: Vec<Digest>,
}

/// Small files that are wanted in a pack.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PackRequest {
    /// At most a thousand.
    pub sha256: Vec<Digest>,
}

/// For which files tasks of a pilot wait now, that have taken some seconds already. Replaces what it said before.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileWaits {
    /// At most [`N_WAITS_MAX`].
    pub waits: Vec<FileWait>,
}

/// Tasks that wait for a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileWait {
    /// Their job.
    pub job: JobId,
    /// Which.
    pub tasks: TaskSet,
    /// Which file, from where, and how far it is: words for people, without user names and passwords.
    pub what: String,
}

/// The files of a pack are there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unpacked {
    /// How many there were in the pack.
    pub files: u64,
}

/// An object is there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stored {
    /// Its digest.
    pub sha256: Digest,
    /// Its size.
    pub bytes: u64,
}

/// Which files of a job's tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FilesQuery {
    /// Of this task only.
    pub task: Option<u64>,
    /// After this row of the page before.
    pub after: Option<u64>,
    /// Rows at most; 1000 if nothing is said.
    pub limit: Option<u64>,
}

/// A page of files that a job's tasks have left. Of each task those of its accepted attempt.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Files {
    /// In the order in which they arrived.
    pub files: Vec<FileRow>,
    /// Ask for the next page with this as `after`; absent: that was all.
    pub next: Option<u64>,
}

/// A file that a task has left.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileRow {
    /// Which task.
    pub task: u64,
    /// Where it goes: below the submitter's folder; or the `file:///` path or the place in a store where it already is.
    pub to: String,
    /// What it holds.
    pub sha256: Digest,
    /// How much that is.
    pub bytes: u64,
    /// Its owner may execute it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
    /// Why it was not delivered. Nothing is known of what it holds then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// For which job a pilot brings files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeliveryQuery {
    /// The job; pilots before 2026-12 do not say it.
    pub job: Option<JobId>,
}

/// A file in a store, for a job that names that store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreQuery {
    /// The job.
    pub job: JobId,
    /// `store://NAME/PATH`.
    pub place: String,
    /// What is to be done with it.
    pub way: StoreAccess,
    /// Its owner may execute what is brought. Hosts keep that; stores of objects know no permissions.
    #[serde(default)]
    pub executable: bool,
    /// The task that needs it or leaves it; pilots before 2026-12 do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
}

/// What is to be done with a file in a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreAccess {
    /// It is fetched.
    Read,
    /// It is brought.
    Write,
}

/// How a pilot reaches a file in a store.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoreWay {
    /// By `GET` or `PUT` at this address, for some minutes; absent: through the manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Stores that a user's jobs may name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stores {
    /// By name.
    pub stores: Vec<StoreView>,
}

/// A store of objects, or a file server, that the manager knows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreView {
    /// As in `store://NAME/PATH`.
    pub name: String,
    /// `s3`, `swift` or `sftp`.
    pub kind: String,
    /// Where it is, for people.
    pub at: String,
    /// Whether files travel through the manager instead of from and to the store itself.
    pub is_through_manager: bool,
}

/// Where a page of files begins that a task takes of what others have left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakenFrom {
    /// With the so manieth input of the task, from 0.
    #[serde(default)]
    pub input: u64,
    /// And there with this task.
    #[serde(default)]
    pub task: u64,
}

/// A page of them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TakenPage {
    /// Input by input.
    pub files: Vec<TakenFile>,
    /// Ask for the next page with this; absent: that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<TakenFrom>,
}

/// A file that a task takes of those that others have left.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TakenFile {
    /// Where it goes below the task's folder.
    pub to: String,
    /// What it holds.
    pub sha256: Digest,
    /// How much that is.
    pub bytes: u64,
    /// The task may change it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writable: bool,
    /// Its owner may execute it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}
