//! Rows into records again, in the order of their commits.

use std::{collections::BTreeMap, ops::Range};

use rusqlite::{Connection, Row, Rows};
use scheduler::{
    engine::record::{FailedAttempt, JobResult, Record, Totals, Verdict},
    ids::{JobId, PilotId},
    results::{FailureKind, Successes, Usage},
    time::Time,
};

use super::{
    INDEX_MAX,
    error::Fault,
    packed::{columns, failures},
    schema, sums, write,
};

const JOURNAL: &str = "SELECT seq, kind, at, record, chain FROM journal ORDER BY seq";
const REPORTS: &str = "SELECT seq, position, pilot, report_seq, job, at, first_index, last_index, level, n_tasks, \
    n_attempts, wall_us, wall_squared, cpu_us, memory_bytes_max, ranges, columns_sum, left_sum, sum, chain \
    FROM reports ORDER BY seq";
const FAILURES: &str = "SELECT * FROM failures ORDER BY seq, number";
const FAILURE_PACKS: &str = "SELECT * FROM failure_packs ORDER BY seq";
/// In stores that only former versions have opened.
const NO_FAILURE_PACKS: &str = "SELECT NULL WHERE false";
/// The pack of failures of a record.
pub(super) const FAILURE_PACK: &str = "SELECT * FROM failure_packs WHERE seq = ?1";

/// Hands over every record that was committed, in the order of their numbers.
pub(super) fn replay(connection: &Connection, mut take: impl FnMut(Record)) -> Result<(), Fault> {
    // One snapshot for all tables.
    let transaction = connection.unchecked_transaction()?;
    let (mut journal, mut reports) = (transaction.prepare(JOURNAL)?, transaction.prepare(REPORTS)?);
    let mut failures = transaction.prepare(FAILURES)?;
    let has_packs = schema::has_failure_packs(&transaction)?;
    let mut packs = transaction.prepare(if has_packs { FAILURE_PACKS } else { NO_FAILURE_PACKS })?;
    let mut journal = Cursor::new(journal.query([])?, read_journal)?;
    let mut reports = Cursor::new(reports.query([])?, read_report)?;
    let mut failures = Cursor::new(failures.query([])?, read_failure)?;
    let mut packs = Cursor::new(packs.query([])?, read_failure_pack)?;
    let mut chain = Chain { summed_after: schema::summed_after(&transaction)?, last: 0 };
    let mut births = BTreeMap::new();
    let mut open: Option<OpenReport> = None;
    for seq in 1.. {
        if let Some((mut row, sums)) = reports.take(seq)? {
            let mut failed = Vec::new();
            while let Some((failure, sum)) = failures.take(seq)? {
                let Some(failure) = failure else {
                    return Err(Fault::Damaged(format!("record {seq}: a failure does not say what it used")));
                };
                row.result.failures.push(failure);
                failed.push(sum);
            }
            if let Some((pack, sum)) = packs.take(seq)? {
                row.result.failures.extend(pack);
                failed.push(sum);
            }
            chain.go_on(seq, sums, &failed)?;
            if row.position == 0 {
                open.take().map(OpenReport::close).into_iter().for_each(&mut take);
            }
            open = Some(OpenReport::join(open, row, seq)?);
            continue;
        }
        open.take().map(OpenReport::close).into_iter().for_each(&mut take);
        let Some((record, sums)) = journal.take(seq)? else { break };
        // Those of lost pilots are in the record as a whole.
        let mut failed = Vec::new();
        while let Some((failure, sum)) = failures.take(seq)? {
            if failure.is_some() {
                return Err(Fault::Damaged(format!("record {seq}: a failure belongs to no report")));
            }
            failed.push(sum);
        }
        chain.go_on(seq, sums, &failed)?;
        if let Record::PilotRegistered { pilot, born_at, .. } = &record {
            births.insert(*pilot, *born_at);
        }
        take(record);
    }
    let left = [journal.next_seq(), reports.next_seq(), failures.next_seq(), packs.next_seq()];
    if let Some(seq) = left.into_iter().flatten().min() {
        return Err(Fault::Damaged(format!("something before record {seq} is missing")));
    }
    check_births(&transaction, &births)
}

/// The table of births repeats what the journal says.
fn check_births(connection: &Connection, births: &BTreeMap<PilotId, Time>) -> Result<(), Fault> {
    let mut statement = connection.prepare("SELECT pilot, born_at FROM pilots")?;
    let mut rows = statement.query([])?;
    let mut n_rows = 0;
    while let Some(row) = rows.next()? {
        let (pilot, born_at) = (PilotId(amount(row, 0)?), Time(amount(row, 1)?));
        if births.get(&pilot) != Some(&born_at) {
            return Err(Fault::Damaged(format!(
                "the birth of pilot {pilot} is not the one that its record tells"
            )));
        }
        n_rows += 1;
    }
    if n_rows != births.len() {
        return Err(Fault::Damaged(format!(
            "{n_rows} births of pilots are known, {} have a record",
            births.len()
        )));
    }
    Ok(())
}

/// The chained sums of records, as a replay comes to them.
struct Chain {
    /// Records up to this one have no sums.
    summed_after: i64,
    last: i64,
}

/// The sum of a record's row, and the chained one that it says.
type Sums = (i64, Option<i64>);

impl Chain {
    /// Checks that a record is what followed the one before it when it was written.
    fn go_on(&mut self, seq: i64, (row, noted): Sums, failures: &[i64]) -> Result<(), Fault> {
        if seq <= self.summed_after {
            return Ok(());
        }
        self.last = sums::chained(self.last, row, failures);
        if noted.is_none_or(|noted| !sums::is_same(noted, self.last)) {
            let what =
                "its checksum is wrong: it was changed, or is not the one that followed the record before it";
            return Err(Fault::Damaged(format!("record {seq}: {what}")));
        }
        Ok(())
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

fn read_journal(row: &Row<'_>) -> Result<(Record, Sums), Fault> {
    let text = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
    let record = serde_json::from_str(text).map_err(|error| damaged(row, &format!("its JSON: {error}")))?;
    let (kind, at) = (write::kind(&record), record.at());
    if row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)? != kind || amount(row, 2)? != at.0 {
        return Err(damaged(row, "its JSON is of another kind or time than its row"));
    }
    // Numbers that come next must be larger.
    if new_number(&record).is_some_and(|number| number > INDEX_MAX) {
        return Err(damaged(row, "its number is larger than any that is given"));
    }
    Ok((record, (sums::of_row("journal", row, 0..4)?, row.get(4)?)))
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

fn read_report(row: &Row<'_>) -> Result<(ReportRow, Sums), Fault> {
    let ranges = row.get_ref(15)?.as_blob().map_err(rusqlite::Error::from)?;
    let tasks = columns::unpack_ranges(ranges).map_err(|what| damaged(row, what))?;
    let ends = tasks.first().zip(tasks.iter().last().map(|range| range.end - 1));
    let noted = row.get::<_, Option<i64>>(6)?.zip(row.get::<_, Option<i64>>(7)?);
    let noted = noted.map(|(first, last)| (first.cast_unsigned(), last.cast_unsigned()));
    if ends != noted || tasks.len() != amount(row, 9)? {
        return Err(damaged(row, "its ranges are not those that its row tells of"));
    }
    if !sums::is_whole("reports", row, 0..18)? {
        return Err(damaged(row, "its checksum is wrong"));
    }
    let totals = Totals {
        n: amount(row, 10)?,
        wall_us: amount(row, 11)?,
        wall_squared: amount(row, 12)?,
        cpu_us: amount(row, 13)?,
        memory_bytes_max: amount(row, 14)?,
    };
    let successes = Successes { tasks, ..Successes::default() };
    let job = JobId(amount(row, 4)?);
    let read = ReportRow {
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
    };
    Ok((read, (sums::of_row("reports", row, 0..18)?, row.get(19)?)))
}

/// Returns a failed attempt and the sum of its row. Rows of lost pilots have no use of resources and give no attempt.
fn read_failure(row: &Row<'_>) -> Result<(Option<FailedAttempt>, i64), Fault> {
    if !sums::is_whole("failures", row, 0..14)? {
        return Err(damaged(row, "the checksum of a failure is wrong"));
    }
    let sum = sums::of_row("failures", row, 0..14)?;
    if row.get::<_, Option<i64>>(9)?.is_none() {
        return Ok((None, sum));
    }
    let kind: FailureKind = read_kind(row, 8)?;
    let usage = Usage {
        started_us: amount(row, 9)?,
        wall_us: amount(row, 10)?,
        cpu_us: amount(row, 11)?,
        memory_bytes: amount(row, 12)?,
    };
    let verdict = match row.get::<_, Option<i64>>(13)? {
        Some(at) => Verdict::Retry { at: Time(at.cast_unsigned()) },
        None => Verdict::Final,
    };
    let failed = FailedAttempt { index: amount(row, 3)?, attempt: row.get(4)?, kind, usage, verdict };
    Ok((Some(failed), sum))
}

/// The failed attempts of a row of `failure_packs`, and its sum.
fn read_failure_pack(row: &Row<'_>) -> Result<(Vec<FailedAttempt>, i64), Fault> {
    Ok((read_pack(row, &(0..INDEX_MAX + 1))?, sums::of_row("failure_packs", row, 0..10)?))
}

/// The failed attempts of some tasks from a row of `failure_packs`, in their order.
pub(super) fn read_pack(row: &Row<'_>, tasks: &Range<u64>) -> Result<Vec<FailedAttempt>, Fault> {
    if !sums::is_whole("failure_packs", row, 0..10)? {
        return Err(damaged(row, "the checksum of its failures is wrong"));
    }
    let (at, n) = (Time(amount(row, 3)?), amount(row, 7)?);
    let kinds = row.get_ref(8)?.as_str().map_err(rusqlite::Error::from)?;
    let columns = row.get_ref(9)?.as_blob().map_err(rusqlite::Error::from)?;
    if !failures::has_any_of(n, columns, tasks).map_err(|what| damaged(row, what))? {
        return Ok(Vec::new());
    }
    let mut found = failures::unpack(n, at, kinds, columns).map_err(|what| damaged(row, what))?;
    found.retain(|failed| tasks.contains(&failed.index));
    Ok(found)
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
