//! Rows of files that tasks have left.

use std::collections::BTreeSet;

use rusqlite::{Row, Transaction, params};
use scheduler::{digest::Digest, ids::JobId, results::OutputFile};

use super::error::Fault;

const OF_JOB: &str = "SELECT id, task_index, path, sha256, bytes FROM files \
    WHERE job = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
const OF_TASK: &str = "SELECT id, task_index, path, sha256, bytes FROM files \
    WHERE job = ?1 AND task_index = ?4 AND id > ?2 ORDER BY id LIMIT ?3";

const AT_PATH: &str = "SELECT task_index, sha256, bytes FROM files \
    WHERE job = ?1 AND path = ?2 ORDER BY id DESC LIMIT 1";

pub(super) fn of_job(
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
        let file = OutputFile { to: row.get(2)?, sha256: digest(row, 3)?, bytes: amount(row, 4)? };
        found.push((amount(row, 0)?, amount(row, 1)?, file));
    }
    Ok(found)
}

/// The file that has gone there last of those that a job's tasks have left, and which task left it.
pub(super) fn at_path(
    snapshot: &Transaction<'_>,
    job: JobId,
    path: &str,
) -> Result<Option<(u64, OutputFile)>, Fault> {
    let mut statement = snapshot.prepare_cached(AT_PATH)?;
    let mut rows = statement.query(params![i64::try_from(job.0).unwrap_or(i64::MAX), path])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let file = OutputFile { to: path.to_owned(), sha256: digest(row, 1)?, bytes: amount(row, 2)? };
    Ok(Some((amount(row, 0)?, file)))
}

/// Those of these digests that no file has. All rows are read for it: an index by digest would be some 80 bytes a
/// file on the disk and a page written at a random place for each, for what is asked in the background, once for
/// very many.
pub(super) fn of_none(
    snapshot: &Transaction<'_>,
    mut asked: BTreeSet<Digest>,
) -> Result<BTreeSet<Digest>, Fault> {
    let mut statement = snapshot.prepare_cached("SELECT sha256 FROM files")?;
    let mut rows = statement.query([])?;
    while !asked.is_empty()
        && let Some(row) = rows.next()?
    {
        asked.remove(&digest(row, 0)?);
    }
    Ok(asked)
}

fn digest(row: &Row<'_>, column: usize) -> Result<Digest, Fault> {
    let text = row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?;
    text.parse().map_err(|error| Fault::Damaged(format!("a file's sha256 is {text:?}: {error}")))
}

fn amount(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}
