//! Tasks whose output was cut: found by the lengths of outputs, most of which are not read otherwise.

use std::collections::BTreeSet;

use rusqlite::{Connection, MAIN_DB, blob::Blob, params};
use scheduler::ids::JobId;

use crate::store::{
    error::Fault,
    packed::frames::{self, FRAME_BYTES_MAX, FrameHead},
    replay::amount,
};

/// Rows into which is looked; of a job with more the number is a lower bound.
const N_ROWS_MAX: u64 = 200_000;

const ROWS: &str =
    "SELECT seq, first_index, last_index, length(frames), id FROM outputs WHERE job = ?1 ORDER BY id";

/// How many tasks of a job have, as the last one that is kept, a standard output of more than `limit_bytes`.
///
/// Cost: O(rows of outputs of the job); contents are read of rows with long outputs, and of them some bytes.
pub(in crate::store) fn count(connection: &Connection, job: JobId, limit_bytes: u64) -> Result<u64, Fault> {
    let mut search = Search { connection, limit_bytes, cut: BTreeSet::new(), open: None, blob: None };
    // An output that is longer than a frame begins with a frame of that length.
    let n_least = limit_bytes.min(FRAME_BYTES_MAX as u64 - 1);
    let mut statement = connection.prepare_cached(ROWS)?;
    let mut rows = statement.query(params![job.0.cast_signed()])?;
    let mut n_looked_into = 0;
    while let Some(row) = rows.next()? {
        let (seq, first, last) = (row.get(0)?, amount(row, 1)?, amount(row, 2)?);
        if (amount(row, 3)? > n_least || search.concerns(seq, (first, last))) && n_looked_into < N_ROWS_MAX {
            n_looked_into += 1;
            search.look_into(seq, row.get(4)?)?;
        }
    }
    Ok(search.cut.len() as u64)
}

struct Search<'c> {
    connection: &'c Connection,
    limit_bytes: u64,
    /// Tasks whose last output so far is cut.
    cut: BTreeSet<u64>,
    /// The record, the task and the length of the output that the last frame belongs to.
    open: Option<(i64, u64, u64)>,
    blob: Option<Blob<'c>>,
}

impl Search<'_> {
    /// Whether a row may have more of the last output, or a later output of a task whose last one was cut.
    fn concerns(&self, seq: i64, (first, last): (u64, u64)) -> bool {
        let goes_on = self.open.is_some_and(|(of, index, _)| of == seq && index == first);
        goes_on || self.cut.range(first..=last).next().is_some()
    }

    fn look_into(&mut self, seq: i64, row: i64) -> Result<(), Fault> {
        let mut blob = match self.blob.take() {
            Some(mut blob) => {
                blob.reopen(row)?;
                blob
            }
            None => self.connection.blob_open(MAIN_DB, "outputs", "frames", row, true)?,
        };
        let mut at = 0;
        // Readers of outputs report damage.
        while let Some(FrameHead { index, n_stdout, n_bytes }) = frames::head_at(&mut blob, at) {
            at += n_bytes;
            let n_before = match self.open {
                Some((of, task, n_before)) if (of, task) == (seq, index) => n_before,
                _ => {
                    self.cut.remove(&index);
                    0
                }
            };
            let n_stdout = n_before.saturating_add(n_stdout);
            self.open = Some((seq, index, n_stdout));
            if n_stdout > self.limit_bytes {
                self.cut.insert(index);
            }
        }
        self.blob = Some(blob);
        Ok(())
    }
}
