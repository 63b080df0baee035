//! Rows of files that tasks have left.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row, Transaction, params};
use scheduler::{digest::Digest, ids::JobId, results::OutputFile};

use crate::store::{
    error::Fault,
    replay::{amount, damaged},
    sums,
};

const OF_JOB: &str = "SELECT seq, job, task_index, path, sha256, bytes, sum, id FROM files \
    WHERE job = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
const OF_TASK: &str = "SELECT seq, job, task_index, path, sha256, bytes, sum, id FROM files \
    WHERE job = ?1 AND task_index = ?4 AND id > ?2 ORDER BY id LIMIT ?3";

const ALL: &str = "SELECT seq, job, task_index, path, sha256, bytes, sum FROM files";

const ALL_OF_JOB: &str = "SELECT seq, job, task_index, path, sha256, bytes, sum FROM files WHERE job = ?1";

const AT_PATH: &str = "SELECT seq, job, task_index, path, sha256, bytes, sum FROM files \
    WHERE job = ?1 AND path = ?2 ORDER BY id DESC LIMIT 1";

pub(in crate::store) fn of_job(
    snapshot: &Transaction<'_>,
    job: JobId,
    task: Option<u64>,
    after: u64,
    limit: u64,
) -> Result<Vec<(u64, u64, OutputFile)>, Fault> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let (job, after, limit) = (number(job.0), number(after), number(limit));
    let mut statement = snapshot.prepare_cached(if task.is_some() { OF_TASK } else { OF_JOB })?;
    let mut rows = match task {
        Some(task) => statement.query(params![job, after, limit, number(task)])?,
        None => statement.query(params![job, after, limit])?,
    };
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((amount(row, 7)?, amount(row, 2)?, file(row)?));
    }
    Ok(found)
}

/// The file that has gone there last of those that a job's tasks have left, and which task left it.
pub(in crate::store) fn at_path(
    snapshot: &Transaction<'_>,
    job: JobId,
    path: &str,
) -> Result<Option<(u64, OutputFile)>, Fault> {
    let mut statement = snapshot.prepare_cached(AT_PATH)?;
    let mut rows = statement.query(params![i64::try_from(job.0).unwrap_or(i64::MAX), path])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((amount(row, 2)?, file(row)?)))
}

/// Hands over every file that a task has left, with its job and task, as long as more are wanted.
pub(in crate::store) fn each(
    connection: &Connection,
    mut take: impl FnMut(u64, u64, OutputFile) -> bool,
) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if !take(amount(row, 1)?, amount(row, 2)?, file(row)?) {
            break;
        }
    }
    Ok(())
}

fn file(row: &Row<'_>) -> Result<OutputFile, Fault> {
    if !sums::is_whole("files", row, 0..6)? {
        return Err(damaged(row, "the checksum of a file that a task has left is wrong"));
    }
    Ok(OutputFile::from_packed(row.get(3)?, digest(row, 4)?, amount(row, 5)?))
}

/// Those of these digests that no file has, of any job or of this one. All its rows are read for it: an index by digest
/// would be some 80 bytes a file on the disk and a page written at a random place for each, for what is asked in the
/// background, once for very many, and by pilots that have outlived a manager.
pub(in crate::store) fn of_none(
    snapshot: &Transaction<'_>,
    job: Option<JobId>,
    mut asked: BTreeSet<Digest>,
) -> Result<BTreeSet<Digest>, Fault> {
    let mut statement = snapshot.prepare_cached(if job.is_some() { ALL_OF_JOB } else { ALL })?;
    let mut rows = match job {
        Some(job) => statement.query(params![i64::try_from(job.0).unwrap_or(i64::MAX)])?,
        None => statement.query([])?,
    };
    while !asked.is_empty()
        && let Some(row) = rows.next()?
    {
        // A damaged digest would have a file removed that a task has left.
        asked.remove(&file(row)?.sha256);
    }
    Ok(asked)
}

fn digest(row: &Row<'_>, column: usize) -> Result<Digest, Fault> {
    let text = row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?;
    text.parse().map_err(|error| Fault::Damaged(format!("a file's sha256 is {text:?}: {error}")))
}
