//! Reading beside the writer: finished attempts and outputs, by task.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension, Transaction};
use scheduler::{
    digest::Digest,
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
    results::{FailureKind, OutputFile, TaskOutput, Usage},
    time::{Span, Time},
};

use super::{
    Access,
    error::{Fault, StoreError},
    page::{self, OutputPage},
};
use crate::store::left::{
    arrivals::{self, Arrivals},
    cut_outputs, files,
};

/// Connections kept for the next reader; more may be in use.
const N_IDLE_MAX: usize = 4;

/// One attempt that has ended.
#[derive(Clone, PartialEq, Debug)]
pub struct AttemptRow {
    /// The task's index in its job.
    pub index: u64,
    /// The number of the attempt, from 1. Counts on when failed tasks are opened again.
    pub attempt: u32,
    /// The pilot that ran it.
    pub pilot: PilotId,
    /// When it began, on the manager's clock. Not known of a task that was lost with its pilot, and of one that never
    /// began: then it is `ended_at`.
    pub started_at: Time,
    /// Its use of resources, for successes to the nearest 0.1 ms and KiB. All 0 of a task that was lost with its pilot
    /// or never began.
    pub usage: Usage,
    /// The program's exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// Why it failed; `None`: it succeeded.
    pub failure: Option<FailureKind>,
    /// Whether the task was decided by it: it succeeded, or failed for good.
    pub is_final: bool,
    /// When it ended, on the manager's clock; of a task that was lost with its pilot: when that was known.
    pub ended_at: Time,
}

/// Reads what was committed. Cheap to clone; each call blocks while it reads.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    access: Access,
    idle: Mutex<Vec<Connection>>,
}

impl Reader {
    pub(super) fn new(path: PathBuf, access: Access) -> Reader {
        Reader { shared: Arc::new(Shared { path, access, idle: Mutex::default() }) }
    }

    /// The last ended attempt of each task in a range of indices, ascending, `limit` tasks at most.
    /// Tasks without any are left out.
    ///
    /// Errors: the file cannot be read or is damaged. Cost: O(reports that overlap what is returned).
    pub fn finished(
        &self,
        job: JobId,
        range: Range<u64>,
        limit: usize,
    ) -> Result<Vec<AttemptRow>, StoreError> {
        self.read("read finished tasks from", |snapshot| {
            let page = page::finished(snapshot, job, range, limit)?;
            let mut births = Births { snapshot, known: HashMap::new() };
            page.into_iter().map(|found| births.date(found)).collect()
        })
    }

    /// All ended attempts of a task in order: the failed ones and the success.
    ///
    /// Errors: the file cannot be read or is damaged. Cost: O(log reports + attempts), usually.
    pub fn attempts(&self, task: TaskId) -> Result<Vec<AttemptRow>, StoreError> {
        self.read("read a task's attempts from", |snapshot| {
            let found = page::attempts(snapshot, task)?;
            let mut births = Births { snapshot, known: HashMap::new() };
            found.into_iter().map(|found| births.date(found)).collect()
        })
    }

    /// The last kept output of each task in a range of indices, ascending: about as many
    /// as have `limit_bytes` together, one at least. For the next page ask from the last index + 1;
    /// only an empty page is the end.
    ///
    /// Errors: the file cannot be read or is damaged. Cost: O(what is returned), chunks of 256 KiB.
    pub fn outputs(
        &self,
        job: JobId,
        range: Range<u64>,
        limit_bytes: u64,
    ) -> Result<Vec<(u64, TaskOutput)>, StoreError> {
        self.read("read outputs from", |snapshot| page::outputs(snapshot, job, range, limit_bytes))
    }

    /// The same where rows may be damaged: says of which tasks something may be missing.
    ///
    /// Errors: the file cannot be read. Cost: as for [`Reader::outputs`].
    pub fn outputs_around_damage(
        &self,
        job: JobId,
        range: Range<u64>,
        limit_bytes: u64,
    ) -> Result<OutputPage, StoreError> {
        self.read("read outputs from", |snapshot| {
            page::outputs_around_damage(snapshot, job, range, limit_bytes)
        })
    }

    /// How many bytes of output are kept of a job.
    ///
    /// Errors: the file cannot be read. Cost: O(rows of outputs of the job).
    pub fn output_bytes(&self, job: JobId) -> Result<u64, StoreError> {
        self.read("read outputs from", |snapshot| page::output_bytes(snapshot, job))
    }

    /// How many tasks of a job wrote more to their standard output than `limit_bytes`, by what is kept of the last
    /// attempt of each. Of a job with very many long outputs it is a lower bound.
    ///
    /// Errors: the file cannot be read. Cost: O(rows of outputs of the job).
    pub fn cut_outputs(&self, job: JobId, limit_bytes: u64) -> Result<u64, StoreError> {
        self.read("read outputs from", |snapshot| cut_outputs::count(snapshot, job, limit_bytes))
    }

    /// Returns outputs of attempts of a job, of all or some tasks, in the order in which they were stored: after row
    /// `after`, as many as have about `limit_bytes` together. Says up to which row it has looked, and whether
    /// there are more.
    ///
    /// Errors: the file cannot be read. Cost: O(rows that are looked at), a bounded number.
    pub fn arrivals(
        &self,
        job: JobId,
        tasks: Option<&TaskSet>,
        after: u64,
        limit_bytes: u64,
    ) -> Result<Arrivals, StoreError> {
        self.read("read outputs from", |snapshot| arrivals::after(snapshot, job, tasks, after, limit_bytes))
    }

    /// Files that a job's tasks have left, or one of them, with the number of their row: `limit` at most, after
    /// that row.
    ///
    /// Errors: the file cannot be read or is damaged. Cost: O(what is returned).
    pub fn files(
        &self,
        job: JobId,
        task: Option<u64>,
        after: u64,
        limit: u64,
    ) -> Result<Vec<(u64, u64, OutputFile)>, StoreError> {
        self.read("read files from", |snapshot| files::of_job(snapshot, job, task, after, limit))
    }

    /// The file that has gone to a path last of those that a job's tasks have left, and which task left it.
    ///
    /// Errors: as for [`Reader::files`]. Cost: O(log files).
    pub fn file_at(&self, job: JobId, path: &str) -> Result<Option<(u64, OutputFile)>, StoreError> {
        self.read("read files from", |snapshot| files::at_path(snapshot, job, path))
    }

    /// Files of a task that were not delivered, each with the reason: `limit` at most.
    ///
    /// Errors: as for [`Reader::files`]. Cost: O(files of the task).
    pub fn left_out(&self, task: TaskId, limit: usize) -> Result<Vec<OutputFile>, StoreError> {
        let files = self.files(task.job, Some(task.index), 0, u64::MAX)?.into_iter().map(|(.., file)| file);
        Ok(files.filter(|file| file.left_out.is_some()).take(limit).collect())
    }

    /// Those of these digests that no file has which a task has left.
    ///
    /// Errors: as for [`Reader::files`]. Cost: O(all files), in no more memory than what is asked about.
    pub fn left_by_none(&self, asked: BTreeSet<Digest>) -> Result<BTreeSet<Digest>, StoreError> {
        self.read("read files from", |snapshot| files::of_none(snapshot, None, asked))
    }

    /// Those of these digests that no file has which a task of the job has left.
    ///
    /// Errors: as for [`Reader::files`]. Cost: O(files of the job).
    pub fn left_by_none_of(
        &self,
        job: JobId,
        asked: BTreeSet<Digest>,
    ) -> Result<BTreeSet<Digest>, StoreError> {
        self.read("read files from", |snapshot| files::of_none(snapshot, Some(job), asked))
    }

    /// How much disk the store takes, in bytes: its file and the log beside it.
    ///
    /// Errors: the file is not there any more.
    pub fn size_bytes(&self) -> Result<u64, StoreError> {
        let path = &self.shared.path;
        let size = |path: &PathBuf| match fs::metadata(path) {
            Ok(found) => Ok(found.len()),
            Err(error) => Err((path.clone(), error)),
        };
        let log = PathBuf::from(format!("{}-wal", path.display()));
        let sizes = size(path).and_then(|n_bytes| match size(&log) {
            Ok(log) => Ok(n_bytes + log),
            // Without anything in it, it may be missing.
            Err((_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(n_bytes),
            Err(failed) => Err(failed),
        });
        sizes.map_err(|(path, source)| StoreError::Folder { path, doing: "look at", source })
    }

    /// Closes the connections that are kept for the next reader.
    pub(super) fn close_idle(&self) {
        self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Reads in one snapshot, on a connection of its own.
    fn read<T>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let Shared { path, access, idle } = &*self.shared;
        let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match kept {
            Some(connection) => connection,
            None => super::connect(path, *access)?,
        };
        let failed = |fault: Fault| fault.at(path, doing);
        let snapshot = connection.unchecked_transaction().map_err(|error| failed(error.into()))?;
        let found = read(&snapshot).map_err(failed)?;
        drop(snapshot);
        let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < N_IDLE_MAX {
            idle.push(connection);
        }
        Ok(found)
    }
}

/// When pilots were born: anchors their clocks to the manager's.
struct Births<'a> {
    snapshot: &'a Transaction<'a>,
    known: HashMap<PilotId, Option<Time>>,
}

impl Births<'_> {
    /// Puts an attempt on the manager's clock.
    fn date(&mut self, found: page::Found) -> Result<AttemptRow, Fault> {
        let born_at = self.born_at(found.pilot)?;
        let (started_at, ended_at) = match (found.usage, born_at) {
            (None, _) => (found.at, found.at),
            // It failed before it could begin, when its files were brought, say.
            (Some(usage), _) if usage == Usage::default() => (found.at, found.at),
            (Some(usage), Some(born_at)) => {
                let started_at = born_at + Span(usage.started_us);
                (started_at, started_at + Span(usage.wall_us))
            }
            // A pilot that never registered: only when it reported is known.
            (Some(usage), None) => (Time(found.at.0.saturating_sub(usage.wall_us)), found.at),
        };
        let exit_code = match &found.failure {
            None => Some(found.exit_code),
            Some(FailureKind::Exit { code }) => Some(*code),
            Some(_) => None,
        };
        Ok(AttemptRow {
            index: found.index,
            attempt: found.attempt,
            pilot: found.pilot,
            started_at,
            usage: found.usage.unwrap_or_default(),
            exit_code,
            failure: found.failure,
            is_final: found.is_final,
            ended_at,
        })
    }

    fn born_at(&mut self, pilot: PilotId) -> Result<Option<Time>, Fault> {
        if let Some(known) = self.known.get(&pilot) {
            return Ok(*known);
        }
        let mut statement = self.snapshot.prepare_cached("SELECT born_at FROM pilots WHERE pilot = ?1")?;
        let born_at: Option<i64> =
            statement.query_row([pilot.0.cast_signed()], |row| row.get(0)).optional()?;
        let born_at = born_at.map(|at| Time(at.cast_unsigned()));
        self.known.insert(pilot, born_at);
        Ok(born_at)
    }
}
