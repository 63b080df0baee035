//! Outputs of attempts in the order in which they were stored: for `logs --follow`.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, Transaction, params};
use scheduler::{
    engine::record::Verdict,
    ids::{JobId, PilotId},
    ranges::TaskSet,
    results::TaskOutput,
};

use crate::store::{
    INDEX_MAX,
    error::Fault,
    packed::frames,
    replay::{FAILURE_PACK, amount, read_pack},
    sums,
};

/// Rows of all jobs that are looked at for one answer. Only rows of the asked job are read whole.
const N_ROWS_MAX: u64 = 4096;

const ROWS: &str = "SELECT seq, job, first_index, last_index, level, frames, sum, id FROM outputs NOT INDEXED \
    WHERE id > ?1 ORDER BY id";
const PILOT: &str = "SELECT pilot FROM reports WHERE seq = ?1";
const FAILURES: &str = "SELECT task_index, attempt, retry_at IS NULL FROM failures WHERE seq = ?1";

/// Outputs that were stored after some row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Arrivals {
    /// In the order in which it was kept.
    pub arrived: Vec<Arrived>,
    /// First and last tasks of rows that are damaged.
    pub damaged: Vec<(u64, u64)>,
    /// The last row that was looked at.
    pub after: u64,
    /// Whether there are more rows.
    pub is_more: bool,
}

/// The output of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// The task, and what it wrote.
    pub output: TaskOutput,
    /// The pilot that ran the attempt, if it is still known.
    pub pilot: Option<PilotId>,
    /// The number of the failed attempt; `None`: the attempt succeeded, or was killed.
    pub failed_attempt: Option<u32>,
    /// Whether the task has failed for good by it.
    pub is_final_failure: bool,
}

/// See [`crate::store::Reader::arrivals`].
pub(in crate::store) fn after(
    snapshot: &Transaction<'_>,
    job: JobId,
    tasks: Option<&TaskSet>,
    after: u64,
    limit_bytes: u64,
) -> Result<Arrivals, Fault> {
    let mut page = Page { snapshot, found: Arrivals { after, ..Arrivals::default() }, last: None };
    let (mut n_rows, mut n_bytes) = (0, 0);
    let mut statement = snapshot.prepare_cached(ROWS)?;
    let mut rows = statement.query(params![i64::try_from(after).unwrap_or(i64::MAX)])?;
    while let Some(row) = rows.next()? {
        let is_of_job = row.get::<_, i64>(1)? == job.0.cast_signed();
        let is_full = n_rows >= N_ROWS_MAX || n_bytes >= limit_bytes;
        // A long output goes on in the next row, and is not cut between two answers.
        if is_full && !(is_of_job && page.goes_on(row)?) {
            page.found.is_more = true;
            break;
        }
        if is_of_job {
            n_bytes += page.take(row, tasks)?;
        }
        n_rows += 1;
        page.found.after = amount(row, 7)?;
    }
    Ok(page.found)
}

struct Page<'a> {
    snapshot: &'a Transaction<'a>,
    found: Arrivals,
    /// The report and the last task of the row before, if it was of the job.
    last: Option<(i64, i64)>,
}

impl Page<'_> {
    fn goes_on(&self, row: &Row<'_>) -> Result<bool, Fault> {
        Ok(self.last == Some((row.get(0)?, row.get(2)?)))
    }

    /// Takes what a row holds of the wanted tasks; says how many bytes.
    fn take(&mut self, row: &Row<'_>, tasks: Option<&TaskSet>) -> Result<u64, Fault> {
        let goes_on = self.goes_on(row)?;
        let (seq, first, last): (i64, u64, u64) = (row.get(0)?, amount(row, 2)?, amount(row, 3)?);
        self.last = Some((seq, last.cast_signed()));
        if tasks.is_some_and(|tasks| tasks.intersection(&TaskSet::from(first..last + 1)).is_empty()) {
            return Ok(0);
        }
        let (failed, pilot) = (self.failed(seq)?, self.pilot(seq)?);
        let bytes = row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?;
        let (mut bytes, fault) = frames::readable(bytes, sums::is_whole("outputs", row, 0..6)?);
        if fault.is_some() {
            self.found.damaged.push((first, last));
        }
        let (mut n_bytes, mut open) = (0, goes_on.then_some(first));
        while let Ok(frame) = frames::take_frame(&mut bytes) {
            if tasks.is_some_and(|tasks| !tasks.contains(frame.index)) {
                continue;
            }
            n_bytes += (frame.stdout.len() + frame.stderr.len()) as u64;
            match self.found.arrived.last_mut().filter(|last| open == Some(last.output.index)) {
                Some(last) if last.output.index == frame.index => {
                    last.output.stdout.extend_from_slice(frame.stdout);
                    last.output.stderr.extend_from_slice(frame.stderr);
                }
                _ => {
                    let (stdout, stderr) = (frame.stdout.to_vec(), frame.stderr.to_vec());
                    let failure = failed.get(&frame.index);
                    self.found.arrived.push(Arrived {
                        output: TaskOutput { index: frame.index, stdout, stderr },
                        pilot,
                        failed_attempt: failure.map(|(attempt, _)| *attempt),
                        is_final_failure: failure.is_some_and(|(_, is_final)| *is_final),
                    });
                }
            }
            open = Some(frame.index);
        }
        Ok(n_bytes)
    }

    /// Returns the pilot that sent a report.
    fn pilot(&self, seq: i64) -> Result<Option<PilotId>, Fault> {
        let mut statement = self.snapshot.prepare_cached(PILOT)?;
        let pilot = statement.query_row([seq], |row| row.get::<_, i64>(0)).optional()?;
        Ok(pilot.map(|pilot| PilotId(pilot.cast_unsigned())))
    }

    /// The failures that a report brought.
    fn failed(&self, seq: i64) -> Result<BTreeMap<u64, (u32, bool)>, Fault> {
        let mut statement = self.snapshot.prepare_cached(FAILURES)?;
        let rows = statement.query_map([seq], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), (row.get(1)?, row.get(2)?)))
        })?;
        let mut failed: BTreeMap<u64, (u32, bool)> = rows.collect::<Result<_, _>>()?;
        let mut statement = self.snapshot.prepare_cached(FAILURE_PACK)?;
        let mut rows = statement.query([seq])?;
        if let Some(row) = rows.next()? {
            let pack = read_pack(row, &(0..INDEX_MAX + 1))?;
            failed.extend(
                pack.into_iter()
                    .map(|failed| (failed.index, (failed.attempt, failed.verdict == Verdict::Final))),
            );
        }
        Ok(failed)
    }
}
