//! Records into rows, in one transaction.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use scheduler::{
    engine::record::{Blamed, FailedAttempt, JobResult, Record, Verdict},
    ids::{JobId, PilotId},
    results::{FailureKind, Usage},
    time::Time,
};

use super::{INDEX_MAX, error::Fault, frames, pack, schema};

const JOURNAL: &str = "INSERT INTO journal VALUES (?1, ?2, ?3, ?4)";
const REPORT: &str = "INSERT INTO reports \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
const FAILURE: &str = "INSERT INTO failures \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const OUTPUT: &str = "INSERT INTO outputs (seq, job, first_index, last_index, level, frames) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const FILE: &str =
    "INSERT INTO files (seq, job, task_index, path, sha256, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const PILOT: &str = "INSERT OR REPLACE INTO pilots VALUES (?1, ?2)";

/// The number after the last one used.
pub(super) fn next_seq(connection: &Connection) -> Result<i64, Fault> {
    let last = "SELECT max(coalesce((SELECT max(seq) FROM journal), 0), \
                coalesce((SELECT max(seq) FROM reports), 0))";
    let last: i64 = connection.query_row(last, [], |row| row.get(0))?;
    Ok(last.saturating_add(1))
}

/// Writes records from number `seq` on, in the life of the store that this one is; says the number after them.
pub(super) fn commit(
    connection: &mut Connection,
    epoch: u64,
    seq: i64,
    records: &[Record],
) -> Result<i64, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Whoever got past the locks has read the store as it is now: what would be added it would not know.
    if schema::take(&transaction, "epoch")? != epoch {
        return Err(Fault::TakenOver);
    }
    let mut writer = Writer { transaction: &transaction, seq };
    for record in records {
        writer.put(record)?;
    }
    let next = writer.seq;
    transaction.commit()?;
    Ok(next)
}

/// A failed attempt on its way to its row.
struct FailureRow<'a> {
    job: JobId,
    index: u64,
    attempt: u32,
    kind: &'a FailureKind,
    usage: Option<&'a Usage>,
    verdict: Verdict,
}

/// Whose report a result is from.
struct Report {
    pilot: PilotId,
    seq: u64,
    at: Time,
}

/// From where to where a set of indices goes.
struct Extent {
    first: i64,
    last: i64,
    /// The class of its width: the least level such that last - first < 2^level.
    level: u32,
}

impl Extent {
    fn of(first: u64, last: u64) -> Result<Extent, Fault> {
        let level = u64::BITS - (last - first).leading_zeros();
        Ok(Extent { first: ordered("task index", first)?, last: ordered("task index", last)?, level })
    }
}

struct Writer<'a> {
    transaction: &'a Transaction<'a>,
    seq: i64,
}

impl Writer<'_> {
    fn put(&mut self, record: &Record) -> Result<(), Fault> {
        // A report of which nothing was accepted has no row to be in: it is kept like a control record.
        if let Record::Reported { pilot, seq, results, at } = record
            && !results.is_empty()
        {
            let report = Report { pilot: *pilot, seq: *seq, at: *at };
            for (position, result) in results.iter().enumerate() {
                self.put_result(&report, position, result)?;
                self.seq += 1;
            }
            return Ok(());
        }
        if let Record::PilotLost { pilot, blamed, at, .. } = record {
            for (number, Blamed { task, attempt, verdict }) in blamed.iter().enumerate() {
                let row = FailureRow {
                    job: task.job,
                    index: task.index,
                    attempt: *attempt,
                    kind: &FailureKind::PilotLost,
                    usage: None,
                    verdict: *verdict,
                };
                self.put_failure(*pilot, *at, number, &row)?;
            }
        }
        if let Record::PilotRegistered { pilot, born_at, .. } = record {
            let mut statement = self.transaction.prepare_cached(PILOT)?;
            statement.execute(params![ordered("pilot", pilot.0)?, bits(born_at.0)])?;
        }
        let (kind, at) = (kind(record), record.at());
        let json = serde_json::to_string(record)?;
        self.transaction.prepare_cached(JOURNAL)?.execute(params![self.seq, kind, bits(at.0), json])?;
        self.seq += 1;
        Ok(())
    }

    fn put_result(&self, report: &Report, position: usize, result: &JobResult) -> Result<(), Fault> {
        let job = ordered("job", result.job.0)?;
        let tasks = &result.successes.tasks;
        let ends = tasks.first().zip(tasks.iter().last().map(|range| range.end - 1));
        let ends = ends.map(|(first, last)| Extent::of(first, last)).transpose()?;
        let totals = &result.totals;
        self.transaction.prepare_cached(REPORT)?.execute(params![
            self.seq,
            position as i64,
            ordered("pilot", report.pilot.0)?,
            bits(report.seq),
            job,
            bits(report.at.0),
            ends.as_ref().map(|ends| ends.first),
            ends.as_ref().map(|ends| ends.last),
            ends.as_ref().map(|ends| ends.level),
            bits(tasks.len()),
            bits(totals.n),
            bits(totals.wall_us),
            bits(totals.wall_squared),
            bits(totals.cpu_us),
            bits(totals.memory_bytes_max),
            pack::pack_ranges(tasks),
            pack::pack_columns(&result.successes),
        ])?;
        for (number, failure) in result.failures.iter().enumerate() {
            let FailedAttempt { index, attempt, kind, usage, verdict } = failure;
            let (index, attempt, verdict) = (*index, *attempt, *verdict);
            let row = FailureRow { job: result.job, index, attempt, kind, usage: Some(usage), verdict };
            self.put_failure(report.pilot, report.at, number, &row)?;
        }
        for chunk in frames::pack_outputs(&result.outputs) {
            let ends = Extent::of(chunk.first_index, chunk.last_index)?;
            let mut statement = self.transaction.prepare_cached(OUTPUT)?;
            statement.execute(params![self.seq, job, ends.first, ends.last, ends.level, chunk.frames])?;
        }
        for (index, file) in result.files.iter().flat_map(|of| of.files.iter().map(|file| (of.index, file))) {
            self.transaction.prepare_cached(FILE)?.execute(params![
                self.seq,
                job,
                ordered("task index", index)?,
                file.to,
                file.sha256.to_string(),
                bits(file.bytes),
            ])?;
        }
        Ok(())
    }

    fn put_failure(
        &self,
        pilot: PilotId,
        at: Time,
        number: usize,
        row: &FailureRow<'_>,
    ) -> Result<(), Fault> {
        let retry_at = match row.verdict {
            Verdict::Retry { at } => Some(bits(at.0)),
            Verdict::Final => None,
        };
        self.transaction.prepare_cached(FAILURE)?.execute(params![
            self.seq,
            number as i64,
            ordered("job", row.job.0)?,
            ordered("task index", row.index)?,
            row.attempt,
            ordered("pilot", pilot.0)?,
            bits(at.0),
            row.kind.word(),
            serde_json::to_string(row.kind)?,
            row.usage.map(|usage| bits(usage.started_us)),
            row.usage.map(|usage| bits(usage.wall_us)),
            row.usage.map(|usage| bits(usage.cpu_us)),
            row.usage.map(|usage| bits(usage.memory_bytes)),
            retry_at,
        ])?;
        Ok(())
    }
}

/// A number by which rows are found: its order must survive in SQLite's signed integers.
fn ordered(what: &'static str, value: u64) -> Result<i64, Fault> {
    if value > INDEX_MAX {
        return Err(Fault::TooLarge { what, value });
    }
    Ok(value.cast_signed())
}

/// An amount: all 64 bits are kept; beyond 2^63, where nothing real is, it shows as negative.
fn bits(value: u64) -> i64 {
    value.cast_signed()
}

/// How a record's row names it.
pub(super) fn kind(record: &Record) -> &'static str {
    match record {
        Record::PlatformAttached { .. } => "platform-attached",
        Record::PlatformModeSet { .. } => "platform-mode-set",
        Record::PlatformScaled { .. } => "platform-scaled",
        Record::RatiosFound { .. } => "ratios-found",
        Record::RatiosRestored { .. } => "ratios-restored",
        Record::ProfileForgotten { .. } => "profile-forgotten",
        Record::ProfileDeclared { .. } => "profile-declared",
        Record::PoliciesSet { .. } => "policies-set",
        Record::JobAccepted { .. } => "job-accepted",
        Record::JobPaused { .. } => "job-paused",
        Record::JobResumed { .. } => "job-resumed",
        Record::TasksCancelled { .. } => "tasks-cancelled",
        Record::TasksReopened { .. } => "tasks-reopened",
        Record::Reported { .. } => "reported",
        Record::BesideMeasured { .. } => "beside-measured",
        Record::EffortsMeasured { .. } => "efforts-measured",
        Record::WeightsMoved { .. } => "weights-moved",
        Record::AllocationIntended { .. } => "allocation-intended",
        Record::AllocationSubmitted { .. } => "allocation-submitted",
        Record::AllocationUnknown { .. } => "allocation-unknown",
        Record::AllocationShrunk { .. } => "allocation-shrunk",
        Record::AllocationReleased { .. } => "allocation-released",
        Record::AllocationEnded { .. } => "allocation-ended",
        Record::PilotRegistered { .. } => "pilot-registered",
        Record::PilotDrained { .. } => "pilot-drained",
        Record::PilotLeft { .. } => "pilot-left",
        Record::PilotLost { .. } => "pilot-lost",
        Record::PilotReturned { .. } => "pilot-returned",
        Record::BlameTakenBack { .. } => "blame-taken-back",
    }
}
