//! What pilots report: successes as columns, failures with their kind, output that was kept.

mod output_file;

use serde::{Deserialize, Serialize};

pub use self::output_file::OutputFile;
use crate::{
    ids::{JobId, PilotId},
    ranges::TaskSet,
    size::Size,
    time::Span,
};

/// Pilots report a program's failure so much later than its process ended: whoever ends a whole batch job signals
/// tasks and pilot within this time, and then the failure is the platform's doing.
pub const FAILURES_HELD_BACK: Span = Span::from_millis(250);

/// What one attempt used. Times are on the pilot's own clock, counted from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// When it began, microseconds since the pilot's start.
    pub started_us: u64,
    /// Wall time in microseconds.
    pub wall_us: u64,
    /// CPU time, user and system, in microseconds.
    pub cpu_us: u64,
    /// Peak resident memory in bytes.
    pub memory_bytes: u64,
}

/// Successful attempts of one job: a set of indices, and one entry a column for each in ascending order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Successes {
    /// Which tasks.
    pub tasks: TaskSet,
    /// Microseconds since the pilot's start.
    pub started_us: Vec<u64>,
    /// Wall time in microseconds.
    pub wall_us: Vec<u64>,
    /// CPU time in microseconds.
    pub cpu_us: Vec<u64>,
    /// Peak resident memory in bytes.
    pub memory_bytes: Vec<u64>,
    /// Exit codes; empty when all are 0.
    pub exit_codes: Vec<i32>,
}

impl Successes {
    /// Columns of attempts sorted by index; a second one of the same index is dropped.
    pub fn from_attempts(mut attempts: Vec<(u64, i32, Usage)>) -> Successes {
        attempts.sort_by_key(|(index, ..)| *index);
        attempts.dedup_by_key(|(index, ..)| *index);
        let mut columns = Successes::default();
        let all_zero = attempts.iter().all(|(_, code, _)| *code == 0);
        columns.tasks = attempts.iter().map(|(index, ..)| *index).collect();
        for (_, code, usage) in attempts {
            columns.started_us.push(usage.started_us);
            columns.wall_us.push(usage.wall_us);
            columns.cpu_us.push(usage.cpu_us);
            columns.memory_bytes.push(usage.memory_bytes);
            if !all_zero {
                columns.exit_codes.push(code);
            }
        }
        columns
    }

    /// Each attempt as (index, exit code, usage), ascending. Columns too short read as zeros.
    pub fn attempts(&self) -> impl Iterator<Item = (u64, i32, Usage)> + '_ {
        let at = |column: &[u64], n: usize| column.get(n).copied().unwrap_or(0);
        self.tasks.indices().enumerate().map(move |(n, index)| {
            let usage = Usage {
                started_us: at(&self.started_us, n),
                wall_us: at(&self.wall_us, n),
                cpu_us: at(&self.cpu_us, n),
                memory_bytes: at(&self.memory_bytes, n),
            };
            (index, self.exit_codes.get(n).copied().unwrap_or(0), usage)
        })
    }

    /// Whether each column has one entry a task (or none, for exit codes).
    pub fn is_well_formed(&self) -> bool {
        let n = self.tasks.len();
        let columns = [&self.started_us, &self.wall_us, &self.cpu_us, &self.memory_bytes];
        columns.iter().all(|column| column.len() as u64 == n)
            && (self.exit_codes.is_empty() || self.exit_codes.len() as u64 == n)
    }

    /// Only the attempts of `accepted`.
    pub fn restricted_to(&self, accepted: &TaskSet) -> Successes {
        if *accepted == self.tasks {
            return self.clone();
        }
        Successes::from_attempts(self.attempts().filter(|(index, ..)| accepted.contains(*index)).collect())
    }
}

/// Why an attempt failed. Each kind has its own retry budget; only the program's own use the user's retries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum FailureKind {
    /// The program ended with a code that does not count as success.
    Exit {
        /// The exit code.
        code: i32,
    },
    /// The program was ended by a signal that nobody here sent.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// The program ran longer than the job's time limit.
    TimeLimit {
        /// The limit.
        limit: Span,
    },
    /// The program used more memory than it had asked for, or than there is.
    MemoryLimit {
        /// The limit in bytes; 0: no limit of its own, the kernel ended it because all memory was in use.
        limit_bytes: u64,
    },
    /// The program could not be started: not found, not executable, template without meaning here.
    Start {
        /// What happened, in the system's words.
        what: String,
    },
    /// The node could not run it: no such folder, no processes, memory or disk left.
    Node {
        /// What happened, in the system's words.
        what: String,
    },
    /// The pilot's walltime ended first.
    Walltime,
    /// The pilot vanished while it ran the task.
    PilotLost,
    /// The platform ended the pilot's batch job while the task ran.
    Preempted,
    /// A resident program answered what is no answer, or ended without one.
    BadAnswer {
        /// What was found and what would be right.
        what: String,
    },
    /// A file that the task needs could not be brought, or one that it left could not be delivered.
    Transfer {
        /// Which file, and what happened, in the words of whoever was asked for it.
        what: String,
    },
    /// The program ended well and has not left a file that the job says it leaves.
    OutputMissing {
        /// The file, in the task's folder.
        file: String,
    },
}

/// Whose fault a failure is: decides which retry budget it draws on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Blame {
    /// The program's own: uses the user's retries.
    Program,
    /// The node's or the site's: a fixed budget of its own.
    Node,
    /// The pilot vanished with the task running: the crash limit.
    Crash,
    /// The walltime of its pilot: a small budget, used up only by attempts that had most of a walltime.
    Walltime,
    /// Nobody's: any number of times.
    Nobody,
    /// The batch system ended the pilot's job while the task ran: the crash limit, unless that had another reason.
    Ended,
    /// The network's, or a store's: a fixed budget of its own.
    Transfer,
}

impl FailureKind {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            FailureKind::Exit { .. }
            | FailureKind::Signal { .. }
            | FailureKind::TimeLimit { .. }
            | FailureKind::MemoryLimit { .. }
            | FailureKind::BadAnswer { .. }
            | FailureKind::OutputMissing { .. } => Blame::Program,
            FailureKind::Start { .. } | FailureKind::Node { .. } => Blame::Node,
            FailureKind::PilotLost => Blame::Crash,
            FailureKind::Walltime => Blame::Walltime,
            FailureKind::Preempted => Blame::Ended,
            FailureKind::Transfer { .. } => Blame::Transfer,
        }
    }

    /// One word for tables and for the store.
    pub fn word(&self) -> &'static str {
        match self {
            FailureKind::Exit { .. } => "exit",
            FailureKind::Signal { .. } => "signal",
            FailureKind::TimeLimit { .. } => "time-limit",
            FailureKind::MemoryLimit { .. } => "memory-limit",
            FailureKind::Start { .. } => "start",
            FailureKind::Node { .. } => "node",
            FailureKind::Walltime => "walltime",
            FailureKind::PilotLost => "pilot-lost",
            FailureKind::Preempted => "preempted",
            FailureKind::BadAnswer { .. } => "bad-answer",
            FailureKind::Transfer { .. } => "transfer",
            FailureKind::OutputMissing { .. } => "output-missing",
        }
    }
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FailureKind::Exit { code } => write!(f, "exit code {code}"),
            FailureKind::Signal { signal } => write!(f, "ended by signal {signal}"),
            FailureKind::TimeLimit { limit } => write!(f, "ran longer than its time limit of {limit}"),
            FailureKind::MemoryLimit { limit_bytes: 0 } => {
                write!(f, "out of memory: the kernel ended it, since all memory for the pilot was in use")
            }
            FailureKind::MemoryLimit { limit_bytes } => {
                write!(f, "used more than its memory limit of {}", Size(*limit_bytes))
            }
            FailureKind::Start { what } => write!(f, "could not be started: {what}"),
            FailureKind::Node { what } => write!(f, "the node could not run it: {what}"),
            FailureKind::Walltime => write!(f, "the pilot's walltime ended"),
            FailureKind::PilotLost => write!(f, "the pilot vanished while it ran"),
            FailureKind::Preempted => write!(f, "the platform took the pilot away"),
            FailureKind::BadAnswer { what } => write!(f, "the resident program's answer: {what}"),
            FailureKind::Transfer { what } => write!(f, "file transfer failed: {what}"),
            FailureKind::OutputMissing { file } => write!(f, "it has not left its output {file}"),
        }
    }
}

/// One failed attempt as a pilot reports it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Which task.
    pub index: u64,
    /// Why.
    pub kind: FailureKind,
    /// What it used.
    pub usage: Usage,
}

/// What a task wrote, kept because the job's stdio says `archive`. Absent when it wrote nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskOutput {
    /// Which task.
    pub index: u64,
    /// Standard output; when longer than the job's limit its head and tail with a line between.
    #[serde(with = "bytes")]
    pub stdout: Vec<u8>,
    /// Standard error, likewise.
    #[serde(with = "bytes")]
    pub stderr: Vec<u8>,
}

/// The files that one task left, in the order of the job's outputs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskFiles {
    /// Which task.
    pub index: u64,
    /// Its files.
    pub files: Vec<OutputFile>,
}

/// Bytes in one piece rather than one by one, where the format knows the difference.
mod bytes {
    use std::fmt;

    use serde::{
        Deserializer, Serializer,
        de::{Error, SeqAccess, Visitor},
    };

    /// Room made before the bytes come, whatever is promised.
    const RESERVE_MAX: usize = 1 << 16;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_byte_buf(Bytes)
    }

    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut each: A) -> Result<Vec<u8>, A::Error> {
            let mut bytes = Vec::with_capacity(each.size_hint().unwrap_or(0).min(RESERVE_MAX));
            while let Some(byte) = each.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes)
        }
    }
}

/// What a pilot has to say of one job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobReport {
    /// The job.
    pub job: JobId,
    /// Attempts that succeeded.
    pub successes: Successes,
    /// Attempts that failed.
    pub failures: Vec<Failure>,
    /// Tasks given back: not begun, or killed because the manager said so.
    pub returned: TaskSet,
    /// What they wrote.
    pub outputs: Vec<TaskOutput>,
    /// Files that they left, of successes only.
    #[serde(default)]
    pub files: Vec<TaskFiles>,
    /// Tasks given back that have not begun, for these pilots: they go there if they may.
    #[serde(default)]
    pub given: Vec<(PilotId, TaskSet)>,
}

impl JobReport {
    /// A report with nothing in it yet.
    pub fn new(job: JobId) -> JobReport {
        JobReport {
            job,
            successes: Successes::default(),
            failures: Vec::new(),
            returned: TaskSet::new(),
            outputs: Vec::new(),
            files: Vec::new(),
            given: Vec::new(),
        }
    }

    /// Whether a pilot may say this: whole columns, and of no task that its pilot was lost, which the manager finds.
    pub fn is_well_formed(&self) -> bool {
        let is_lost = |failure: &Failure| failure.kind == FailureKind::PilotLost;
        self.successes.is_well_formed() && !self.failures.iter().any(is_lost)
    }

    /// How many results it has: tasks that have ended, or were given to other pilots.
    pub fn n_results(&self) -> u64 {
        let n_given: u64 = self.given.iter().map(|(_, tasks)| tasks.len()).sum();
        self.successes.tasks.len() + self.failures.len() as u64 + n_given
    }

    /// Drops all that is about other tasks. Nothing is copied where there is nothing to drop.
    pub fn keep_only(&mut self, tasks: &TaskSet) {
        let kept = |all: &TaskSet| all.intersection(tasks);
        self.successes = match kept(&self.successes.tasks) {
            all if all == self.successes.tasks => std::mem::take(&mut self.successes),
            some => self.successes.restricted_to(&some),
        };
        self.failures.retain(|failure| tasks.contains(failure.index));
        self.returned = kept(&self.returned);
        self.outputs.retain(|output| tasks.contains(output.index));
        self.files.retain(|files| tasks.contains(files.index));
        self.given.iter_mut().for_each(|(_, given)| *given = kept(given));
        self.given.retain(|(_, given)| !given.is_empty());
    }

    /// All tasks that it is about.
    pub fn tasks(&self) -> TaskSet {
        let mut tasks = self.successes.tasks.clone();
        tasks.insert_all(&self.returned);
        self.given.iter().for_each(|(_, given)| tasks.insert_all(given));
        tasks.extend_indices(self.failures.iter().map(|failure| failure.index));
        tasks
    }
}

/// One numbered report of a pilot. A number is never used for anything else, however often it is sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The pilot's report number, from 1, without gaps unless a store forgot what it had acknowledged.
    pub seq: u64,
    /// Its contents, a job once at most.
    pub jobs: Vec<JobReport>,
}

impl Report {
    /// The same in a form that a manager may take which has refused this one: without outputs; then, its
    /// tasks given back, to be run again. `None` if nothing less can be said.
    pub fn reduced(&self) -> Option<Report> {
        let mut less = self.clone();
        let has_outputs = self.jobs.iter().any(|job| !job.outputs.is_empty());
        for job in &mut less.jobs {
            job.outputs = Vec::new();
            if !has_outputs {
                job.files = Vec::new();
                let successes = std::mem::take(&mut job.successes);
                job.returned.insert_all(&successes.tasks);
                job.returned.extend_indices(job.failures.drain(..).map(|failure| failure.index));
                job.given.drain(..).for_each(|(_, given)| job.returned.insert_all(&given));
            }
        }
        (less != *self).then_some(less)
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, FailureKind, JobReport, Report, Successes, TaskOutput, Usage};
    use crate::ids::{JobId, PilotId};

    #[test]
    fn columns_keep_each_attempt_with_its_index() {
        let usage = |n| Usage { started_us: n, wall_us: n * 10, cpu_us: n * 7, memory_bytes: n << 20 };
        let attempts = vec![(9, 0, usage(9)), (2, 3, usage(2)), (3, 0, usage(3))];
        let columns = Successes::from_attempts(attempts);
        assert!(columns.is_well_formed());
        let read: Vec<_> = columns.attempts().collect();
        assert_eq!(read, [(2, 3, usage(2)), (3, 0, usage(3)), (9, 0, usage(9))]);
        let one = columns.restricted_to(&[3].into_iter().collect());
        assert_eq!(one.attempts().collect::<Vec<_>>(), [(3, 0, usage(3))]);
    }

    #[test]
    fn reduced_report_loses_outputs_first_then_results_and_never_a_task() {
        let mut job = JobReport::new(JobId(1));
        job.successes = Successes::from_attempts(vec![(2, 0, Usage::default())]);
        job.failures =
            vec![Failure { index: 3, kind: FailureKind::Exit { code: 1 }, usage: Usage::default() }];
        job.returned = [4].into_iter().collect();
        job.given = vec![(PilotId(7), [5].into_iter().collect())];
        job.outputs = vec![TaskOutput { index: 2, stdout: vec![7], stderr: vec![] }];
        let whole = Report { seq: 5, jobs: vec![job.clone()] };
        let without_outputs = whole.reduced().unwrap();
        job.outputs.clear();
        assert_eq!(without_outputs, Report { seq: 5, jobs: vec![job] });
        let mut given_back = JobReport::new(JobId(1));
        given_back.returned = [2, 3, 4, 5].into_iter().collect();
        let last = without_outputs.reduced().unwrap();
        assert_eq!(last, Report { seq: 5, jobs: vec![given_back] });
        assert_eq!(last.reduced(), None);
    }
}
