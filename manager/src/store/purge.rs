//! Removes what tasks of purged jobs have left: rows of outputs and of files, some at a time. Their records stay, and say
//! what became of their tasks.

use std::collections::BTreeSet;

use rusqlite::{Connection, TransactionBehavior, params};
use scheduler::{engine::record::Record, ids::JobId};

use super::{error::Fault, schema};

/// Rows that one transaction removes at most: 4 MiB of outputs.
const N_OUTPUTS_MAX: i64 = 16;
const N_FILES_MAX: i64 = 1024;

// The newest row of a table stays until there is a newer one: SQLite would use its id again, and `logs --follow` goes
// by ids.
const OUTPUTS: &str = "DELETE FROM outputs WHERE id IN \
    (SELECT id FROM outputs WHERE job = ?1 AND id < (SELECT max(id) FROM outputs) LIMIT ?2)";
const FILES: &str = "DELETE FROM files WHERE id IN \
    (SELECT id FROM files WHERE job = ?1 AND id < (SELECT max(id) FROM files) LIMIT ?2)";
const LEFT: &str = "SELECT EXISTS (SELECT 1 FROM outputs WHERE job = ?1 AND id < (SELECT max(id) FROM outputs)) \
    OR EXISTS (SELECT 1 FROM files WHERE job = ?1 AND id < (SELECT max(id) FROM files))";

/// The jobs that were purged.
pub(super) fn purged(connection: &Connection) -> Result<BTreeSet<JobId>, Fault> {
    let mut statement = connection.prepare("SELECT record FROM journal WHERE kind = 'job-purged'")?;
    let mut rows = statement.query([])?;
    let mut jobs = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let text = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        if let Record::JobPurged { job, .. } = serde_json::from_str(text)? {
            jobs.insert(job);
        }
    }
    Ok(jobs)
}

/// Whether tasks of the job have left anything that is still there and may be removed.
pub(super) fn is_left(connection: &Connection, job: JobId) -> Result<bool, Fault> {
    Ok(connection.prepare_cached(LEFT)?.query_row([job.0.cast_signed()], |row| row.get(0))?)
}

/// Removes some of what tasks of a purged job have left, in the life of the store that this one is; says whether
/// anything remains.
pub(super) fn remove_some(connection: &mut Connection, epoch: u64, job: JobId) -> Result<bool, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if schema::take(&transaction, "epoch")? != epoch {
        return Err(Fault::TakenOver);
    }
    for (statement, n_max) in [(OUTPUTS, N_OUTPUTS_MAX), (FILES, N_FILES_MAX)] {
        transaction.prepare_cached(statement)?.execute(params![job.0.cast_signed(), n_max])?;
    }
    let is_left = is_left(&transaction, job)?;
    transaction.commit()?;
    Ok(is_left)
}
