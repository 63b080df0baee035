//! The resolved job: the form that travels and is kept.
//!
//! As JSON: what is absent is left out, so that programs of before there was a field read those that do without.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use scheduler::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::job::files::pattern::{fixed_folder, is_pattern};
use crate::job::limits;
use crate::sweep::Sweep;

/// A job: a command, the sweep that varies it, and how its tasks are to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// What people call it.
    pub name: String,
    /// Which application's profile it belongs to.
    pub application: String,
    /// What each task runs; templates.
    pub command: CommandLine,
    /// Which parameters each task has.
    pub sweep: Sweep,
    /// Environment variables in addition to the pilot's own; the values are templates.
    pub env: BTreeMap<String, String>,
    /// The folder that relative paths start from: the job file's, or where the command was given. Absolute.
    pub base_dir: PathBuf,
    /// Where tasks run.
    pub workdir: WorkDirPolicy,
    /// Cores of each task, at least 1.
    pub cores: u32,
    /// Memory of each task in bytes; 0: none asked for.
    pub memory_bytes: u64,
    /// GPUs of each task.
    pub gpus: u32,
    /// Amounts of other resources, by the names that platforms give them.
    pub generic: BTreeMap<String, u64>,
    /// After so long a task is stopped, in milliseconds.
    pub time_limit_ms: Option<u64>,
    /// The parameter that says how much more one task takes than another, in any unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// Higher goes first among the jobs of a user.
    pub priority: i32,
    /// What happens after the program's own failures.
    pub retries: Retries,
    /// Exit codes that count as success.
    pub success_codes: Vec<i32>,
    /// How many losses of its pilot a running task may be blamed for before it is quarantined.
    pub crash_limit: u32,
    /// With more failed tasks than this the rest of the job is cancelled.
    pub max_failures: Option<u64>,
    /// Where the standard streams lead.
    pub stdio: Stdio,
    /// What is kept of the tasks' output.
    pub results: Results,
    /// The program is started once a slot, reads one JSON task a line and answers one JSON line.
    pub resident: bool,
    /// Files that are in a task's folder before it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Files that a task leaves, and where they go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Output>,
    /// Tasks of its workflow take what it leaves. The manager says so when it accepts the workflow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_taken: bool,
    /// A random number by which caches of pilots know it from another job of its number, as there are where a whole
    /// folder was put back from a backup; 0: none is needed. The manager draws it when it accepts the job.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub drawn: u64,
    /// Variables of the author's environment that `env_from` has left out and whose absence may surprise. Known where
    /// the job file was read only.
    #[serde(skip)]
    pub env_left_out: Vec<String>,
}

/// What a task runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CommandLine {
    /// Program and arguments, each a template; no shell.
    Args(Vec<String>),
    /// One template, run by `/bin/sh -c`; what is put in is quoted.
    Shell(String),
}

/// Where tasks run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkDirPolicy {
    /// In the base folder.
    Submit,
    /// In a private temporary folder that is removed afterwards.
    Scratch,
    /// In a folder by template, made when absent; relative to the base folder.
    Path(String),
}

/// How often and after what pause a task that failed by its own fault is run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Retries {
    /// Runs after the first one.
    pub count: u32,
    /// Pause before each of them, in milliseconds.
    pub delay_ms: u64,
}

/// Where the standard streams of a task lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Stdio {
    /// `Discard` (nothing to read) or a file.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
}

/// One standard stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Stream {
    /// Kept in the pilot's archive, up to the limit of `Results`.
    Archive,
    /// `/dev/null`.
    Discard,
    /// A file by template, relative to the base folder; folders are made when absent.
    File(String),
}

/// What is kept of the tasks' output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Whose archived output is kept.
    pub keep: Keep,
    /// Bytes kept of each stream of each task.
    pub limit_bytes: u64,
    /// Bytes kept of all tasks together.
    #[serde(default = "budget_default", skip_serializing_if = "is_budget_default")]
    pub budget_bytes: u64,
    /// How many files the tasks may write together: streams that are files, and outputs.
    #[serde(default = "files_default", skip_serializing_if = "is_files_default")]
    pub files: u64,
    /// Columns taken from standard output, in the user's order.
    pub extract: Vec<Extract>,
}

/// Whose archived output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Every task's.
    All,
    /// That of tasks that failed.
    Failed,
    /// Nobody's.
    None,
}

/// A column taken from standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// The column's name.
    pub name: String,
    /// A regular expression (lines are matched one by one at `^` and `$`); the first group of the
    /// first match, or the whole match when there is no group.
    pub pattern: String,
}

/// A file, or one for each task, that is in a task's folder before it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Where it is; a template: a path from the base folder, `file:///…`, `http(s)://…`, or `store://NAME/…`. Of what
    /// other tasks leave, where it goes below their base folder; with `*` or `?`, all that match.
    pub from: String,
    /// Tasks that this one waits for leave it: by these entries of its stage's `after`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<usize>,
    /// `from` and `to` are one parameter: its values name files, a line each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lines: bool,
    /// `from` is a folder: the files in it, by their names below it, a line each; a text for each place of a
    /// [`Keying`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// A task may begin without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Where it goes; a template of a path below the task's folder.
    pub to: String,
    /// What it must hold, where the submitter's program does not find that out itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    /// `from` is a path that all nodes see: it is linked, never copied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Tasks get a copy of their own, which they may change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writable: bool,
    /// What the submitter's files hold.
    #[serde(default, skip_serializing_if = "Objects::is_empty")]
    pub objects: Objects,
}

/// What files hold that the manager keeps: one for each place of a [`Keying`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// Their digests.
    pub sha256: Vec<Digest>,
    /// Their sizes.
    pub bytes: Vec<u64>,
    /// Which of them their owner may execute, by their places from 0, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executable: Vec<u64>,
}

/// A file that a task leaves, and where it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// A template of a path below the task's folder. With `*` or `?` all files that match; with a slash at its end all
    /// files of the folder.
    pub from: String,
    /// A template: a path below the base folder, `file:///…`, which nodes see, or `store://NAME/…`. Of several files the
    /// folder in which they keep their names.
    pub to: String,
    /// `from` and `to` are one parameter: its values name files, a line each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lines: bool,
    /// A task may succeed without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// By what the files of a template differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keying {
    /// By the positions in these dimensions, the last one fastest, each with its length.
    Dimensions(Vec<(usize, u64)>),
    /// By the task.
    Task,
}

impl JobSpec {
    /// Whether it names files of which it does not say what they hold: whatever is there when they are fetched.
    pub fn has_unknown_files(&self) -> bool {
        self.inputs.iter().any(|input| {
            let is_known = input.sha256.is_some() || !input.objects.is_empty();
            !is_known && !input.shared && input.after.is_empty()
        })
    }

    /// A job of one task with the defaults of the job file: what command line shorthands begin with.
    pub fn new(command: CommandLine, base_dir: PathBuf) -> JobSpec {
        let application = default_application(&command);
        JobSpec {
            name: application.clone(),
            application,
            command,
            sweep: Sweep::default(),
            env: BTreeMap::new(),
            base_dir,
            workdir: WorkDirPolicy::Submit,
            cores: 1,
            memory_bytes: 0,
            gpus: 0,
            generic: BTreeMap::new(),
            time_limit_ms: None,
            estimate: None,
            priority: 0,
            retries: Retries::default(),
            success_codes: vec![0],
            crash_limit: limits::CRASH_LIMIT_DEFAULT,
            max_failures: None,
            stdio: Stdio::default(),
            results: Results::default(),
            resident: false,
            inputs: Vec::new(),
            outputs: Vec::new(),
            is_taken: false,
            drawn: 0,
            env_left_out: Vec::new(),
        }
    }
}

impl Objects {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.sha256.is_empty()
    }

    pub(super) fn at(&self, place: u64) -> Option<(Digest, u64)> {
        let place = usize::try_from(place).ok()?;
        Some((*self.sha256.get(place)?, *self.bytes.get(place)?))
    }
}

impl Output {
    /// Whether it names files by a pattern, or a whole folder.
    pub fn is_several(&self) -> bool {
        !self.lines && (is_pattern(&self.from) || self.from.ends_with('/') || self.from == ".")
    }

    /// The part of `from` that names of files keep in the folder that they go to.
    pub(super) fn kept_part(&self) -> &str {
        if is_pattern(&self.from) { &self.from[fixed_folder(&self.from).len()..] } else { "" }
    }
}

impl Default for Stdio {
    fn default() -> Stdio {
        Stdio { stdin: Stream::Discard, stdout: Stream::Archive, stderr: Stream::Archive }
    }
}

impl Default for Results {
    fn default() -> Results {
        Results {
            keep: Keep::All,
            limit_bytes: limits::RESULT_LIMIT_BYTES_DEFAULT,
            budget_bytes: limits::RESULT_BUDGET_BYTES_DEFAULT,
            files: limits::RESULT_FILES_DEFAULT,
            extract: Vec::new(),
        }
    }
}

fn budget_default() -> u64 {
    limits::RESULT_BUDGET_BYTES_DEFAULT
}

fn is_budget_default(n_bytes: &u64) -> bool {
    *n_bytes == limits::RESULT_BUDGET_BYTES_DEFAULT
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn files_default() -> u64 {
    limits::RESULT_FILES_DEFAULT
}

fn is_files_default(n: &u64) -> bool {
    *n == limits::RESULT_FILES_DEFAULT
}

/// The application of a job that names none: the program's file name, or `shell` for a shell line.
pub fn default_application(command: &CommandLine) -> String {
    match command {
        CommandLine::Args(args) => {
            let program = args.first().map(String::as_str).unwrap_or_default();
            let name = Path::new(program).file_name().and_then(|name| name.to_str());
            // A program that is itself a parameter has no name before the sweep.
            name.filter(|name| !name.contains('{')).unwrap_or("program").to_owned()
        }
        CommandLine::Shell(_) => "shell".to_owned(),
    }
}
