//! Rows into records again, in the order of their commits.

use rusqlite::{Connection, Row, Rows};
use scheduler::{
    engine::record::{FailedAttempt, JobResult, Record, Totals, Verdict},
    ids::{JobId, PilotId},
    results::{FailureKind, Successes, Usage},
    time::Time,
};

use super::{INDEX_MAX, error::Fault, pack, write};

const JOURNAL: &str = "SELECT seq, record, kind, at FROM journal ORDER BY seq";
const REPORTS: &str = "SELECT seq, position, pilot, report_seq, job, at, n_attempts, wall_us, \
    wall_squared, cpu_us, memory_bytes_max, ranges, first_index, last_index, n_tasks FROM reports ORDER BY seq";
// Those without usage belong to lost pilots, whose records are in the journal as a whole.
const FAILURES: &str = "SELECT seq, task_index, attempt, failure, started_us, wall_us, cpu_us, \
    memory_bytes, retry_at FROM failures WHERE started_us IS NOT NULL ORDER BY seq, number";

/// Hands over every record that was committed, in the order of their numbers.
pub(super) fn replay(connection: &Connection, mut take: impl FnMut(Record)) -> Result<(), Fault> {
    // One snapshot for the three readings.
    let transaction = connection.unchecked_transaction()?;
    let (mut journal, mut reports) = (transaction.prepare(JOURNAL)?, transaction.prepare(REPORTS)?);
    let mut failures = transaction.prepare(FAILURES)?;
    let mut journal = Cursor::new(journal.query([])?, read_journal)?;
    let mut reports = Cursor::new(reports.query([])?, read_report)?;
    let mut failures = Cursor::new(failures.query([])?, read_failure)?;
    let mut open: Option<OpenReport> = None;
    for seq in 1.. {
        if let Some(mut row) = reports.take(seq)? {
            while let Some(failure) = failures.take(seq)? {
                row.result.failures.push(failure);
            }
            if row.position == 0 {
                open.take().map(OpenReport::close).into_iter().for_each(&mut take);
            }
            open = Some(OpenReport::join(open, row, seq)?);
            continue;
        }
        open.take().map(OpenReport::close).into_iter().for_each(&mut take);
        let Some(record) = journal.take(seq)? else { break };
        take(record);
    }
    let left = [journal.next_seq(), reports.next_seq(), failures.next_seq()];
    match left.into_iter().flatten().min() {
        Some(seq) => Err(Fault::Damaged(format!("something before record {seq} is missing"))),
        None => Ok(()),
    }
}

/// Rows of a table by ascending number, one of them read ahead.
struct Cursor<'s, T> {
    rows: Rows<'s>,
    read: fn(&Row<'_>) -> Result<T, Fault>,
    ahead: Option<(i64, T)>,
}

impl<'s, T> Cursor<'s, T> {
    fn new(rows: Rows<'s>, read: fn(&Row<'_>) -> Result<T, Fault>) -> Result<Cursor<'s, T>, Fault> {
        let mut cursor = Cursor { rows, read, ahead: None };
        cursor.advance()?;
        Ok(cursor)
    }

    fn advance(&mut self) -> Result<(), Fault> {
        self.ahead = match self.rows.next()? {
            Some(row) => Some((row.get(0)?, (self.read)(row)?)),
            None => None,
        };
        Ok(())
    }

    fn next_seq(&self) -> Option<i64> {
        self.ahead.as_ref().map(|(seq, _)| *seq)
    }

    /// The next row if it has this number.
    fn take(&mut self, seq: i64) -> Result<Option<T>, Fault> {
        match self.next_seq() {
            Some(next) if next < seq => {
                Err(Fault::Damaged(format!("a row of record {next} belongs to nothing")))
            }
            Some(next) if next == seq => {
                let taken = self.ahead.take().map(|(_, row)| row);
                self.advance()?;
                Ok(taken)
            }
            _ => Ok(None),
        }
    }
}

/// One job's part of a report.
struct ReportRow {
    position: u32,
    pilot: PilotId,
    report_seq: u64,
    at: Time,
    result: JobResult,
}

/// A report of which more parts may follow.
struct OpenReport {
    pilot: PilotId,
    seq: u64,
    at: Time,
    results: Vec<JobResult>,
}

impl OpenReport {
    /// Adds a part to its report, or begins one with it.
    fn join(open: Option<OpenReport>, row: ReportRow, seq: i64) -> Result<OpenReport, Fault> {
        let begun = open.unwrap_or(OpenReport {
            pilot: row.pilot,
            seq: row.report_seq,
            at: row.at,
            results: Vec::new(),
        });
        let is_next = begun.results.len() == row.position as usize;
        if !is_next || (begun.pilot, begun.seq, begun.at) != (row.pilot, row.report_seq, row.at) {
            return Err(Fault::Damaged(format!("record {seq} does not continue the report before it")));
        }
        let mut joined = begun;
        joined.results.push(row.result);
        Ok(joined)
    }

    fn close(self) -> Record {
        let OpenReport { pilot, seq, at, results } = self;
        Record::Reported { pilot, seq, results, at }
    }
}

fn read_journal(row: &Row<'_>) -> Result<Record, Fault> {
    let text = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    let record = serde_json::from_str(text).map_err(|error| damaged(row, &format!("its JSON: {error}")))?;
    let (kind, at) = (write::kind(&record), record.at());
    if row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)? != kind || amount(row, 3)? != at.0 {
        return Err(damaged(row, "its JSON is of another kind or time than its row"));
    }
    // Numbers that come next must be larger.
    if new_number(&record).is_some_and(|number| number > INDEX_MAX) {
        return Err(damaged(row, "its number is larger than any that is given"));
    }
    Ok(record)
}

/// The number of what a record begins.
fn new_number(record: &Record) -> Option<u64> {
    match record {
        Record::PlatformAttached { platform, .. } => Some(platform.0),
        Record::JobAccepted { job, .. } => Some(job.0),
        Record::AllocationIntended { allocation, .. } => Some(allocation.0),
        Record::PilotRegistered { pilot, .. } => Some(pilot.0),
        _ => None,
    }
}

fn read_report(row: &Row<'_>) -> Result<ReportRow, Fault> {
    let ranges = row.get_ref(11)?.as_blob().map_err(rusqlite::Error::from)?;
    let tasks = pack::unpack_ranges(ranges).map_err(|what| damaged(row, what))?;
    let ends = tasks.first().zip(tasks.iter().last().map(|range| range.end - 1));
    let noted = row.get::<_, Option<i64>>(12)?.zip(row.get::<_, Option<i64>>(13)?);
    let noted = noted.map(|(first, last)| (first.cast_unsigned(), last.cast_unsigned()));
    if ends != noted || tasks.len() != amount(row, 14)? {
        return Err(damaged(row, "its ranges are not those that its row tells of"));
    }
    let totals = Totals {
        n: amount(row, 6)?,
        wall_us: amount(row, 7)?,
        wall_squared: amount(row, 8)?,
        cpu_us: amount(row, 9)?,
        memory_bytes_max: amount(row, 10)?,
    };
    let successes = Successes { tasks, ..Successes::default() };
    let job = JobId(amount(row, 4)?);
    Ok(ReportRow {
        position: row.get(1)?,
        pilot: PilotId(amount(row, 2)?),
        report_seq: amount(row, 3)?,
        at: Time(amount(row, 5)?),
        result: JobResult {
            job,
            successes,
            totals,
            failures: Vec::new(),
            outputs: Vec::new(),
            files: Vec::new(),
        },
    })
}

fn read_failure(row: &Row<'_>) -> Result<FailedAttempt, Fault> {
    let kind: FailureKind = read_kind(row, 3)?;
    let usage = Usage {
        started_us: amount(row, 4)?,
        wall_us: amount(row, 5)?,
        cpu_us: amount(row, 6)?,
        memory_bytes: amount(row, 7)?,
    };
    let verdict = match row.get::<_, Option<i64>>(8)? {
        Some(at) => Verdict::Retry { at: Time(at.cast_unsigned()) },
        None => Verdict::Final,
    };
    Ok(FailedAttempt { index: amount(row, 1)?, attempt: row.get(2)?, kind, usage, verdict })
}

/// A failure's kind from its JSON. The row's first column is its record's number.
pub(super) fn read_kind(row: &Row<'_>, column: usize) -> Result<FailureKind, Fault> {
    let text = row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?;
    serde_json::from_str(text).map_err(|error| damaged(row, &format!("a failure's JSON: {error}")))
}

/// A number of 64 bits from SQLite's signed ones.
pub(super) fn amount(row: &Row<'_>, column: usize) -> Result<u64, Fault> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// Says in which record something is wrong. The row's first column is its number.
pub(super) fn damaged(row: &Row<'_>, what: &str) -> Fault {
    match row.get::<_, i64>(0) {
        Ok(seq) => Fault::Damaged(format!("record {seq}: {what}")),
        Err(error) => Fault::Sqlite(error),
    }
}
