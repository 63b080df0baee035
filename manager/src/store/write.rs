//! Records into rows, in one transaction.

use rusqlite::{
    Connection, OptionalExtension, Transaction, TransactionBehavior, params, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};
use scheduler::{
    engine::record::{Blamed, FailedAttempt, JobResult, Record, Verdict},
    ids::{JobId, PilotId},
    results::{FailureKind, Usage},
    time::Time,
};

use super::{
    INDEX_MAX,
    error::Fault,
    packed::{
        columns,
        failures::{self, N_PACKED_MIN},
        frames,
    },
    schema, sums,
};

const JOURNAL: &str = "INSERT INTO journal (seq, kind, at, record, chain) VALUES (?1, ?2, ?3, ?4, ?5)";
const REPORT: &str = "INSERT INTO reports (seq, position, pilot, report_seq, job, at, first_index, last_index, \
    level, n_tasks, n_attempts, wall_us, wall_squared, cpu_us, memory_bytes_max, ranges, columns_sum, left_sum, \
    sum, chain, columns) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";
const FAILURE: &str = "INSERT INTO failures \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
const FAILURE_PACK: &str = "INSERT INTO failure_packs (seq, job, pilot, at, first_index, last_index, level, n_failures, \
    kinds, columns, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const OUTPUT: &str = "INSERT INTO outputs (seq, job, first_index, last_index, level, frames, sum) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const FILE: &str = "INSERT INTO files (seq, job, task_index, path, sha256, bytes, sum) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const PILOT: &str = "INSERT OR REPLACE INTO pilots VALUES (?1, ?2)";

/// Where the records of a store end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct End {
    /// The number of the next record.
    pub(super) next_seq: i64,
    /// The chained sum of the last one.
    pub(super) chain: i64,
}

/// Where a store's records end.
pub(super) fn end(connection: &Connection) -> Result<End, Fault> {
    let last = |query: &str| -> Result<(i64, Option<i64>), Fault> {
        let last = connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        Ok(last.unwrap_or_default())
    };
    let journal = last("SELECT seq, chain FROM journal ORDER BY seq DESC LIMIT 1")?;
    let reports = last("SELECT seq, chain FROM reports ORDER BY seq DESC LIMIT 1")?;
    let (seq, chain) = journal.max(reports);
    Ok(End { next_seq: seq.saturating_add(1), chain: chain.unwrap_or_default() })
}

/// Writes records behind `end`, in the life of the store that this one is; says where they end then.
pub(super) fn commit(
    connection: &mut Connection,
    epoch: u64,
    end: End,
    records: &[Record],
) -> Result<End, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // A manager that got past the locks has read the store as it is now, and would not know records added here.
    if schema::take(&transaction, "epoch")? != epoch {
        return Err(Fault::TakenOver);
    }
    let mut writer = Writer { transaction: &transaction, end };
    for record in records {
        writer.put(record)?;
    }
    let end = writer.end;
    transaction.commit()?;
    Ok(end)
}

/// Inserts a row and its sum, which comes behind the values.
fn insert(
    transaction: &Transaction<'_>,
    (table, statement): (&str, &'static str),
    values: &[ValueRef<'_>],
) -> Result<i64, Fault> {
    let sum = sums::of_values(table, values.iter().copied());
    insert_values(transaction, statement, values.iter().copied().chain([ValueRef::Integer(sum)]))?;
    Ok(sum)
}

fn insert_values<'v>(
    transaction: &Transaction<'_>,
    statement: &'static str,
    values: impl IntoIterator<Item = ValueRef<'v>>,
) -> Result<(), Fault> {
    let values = values.into_iter().map(ToSqlOutput::Borrowed);
    transaction.prepare_cached(statement)?.execute(params_from_iter(values))?;
    Ok(())
}

/// A number, or none.
fn maybe(number: Option<i64>) -> ValueRef<'static> {
    number.map_or(ValueRef::Null, ValueRef::Integer)
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

/// The report that a result is from.
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
    end: End,
}

impl Writer<'_> {
    fn put(&mut self, record: &Record) -> Result<(), Fault> {
        // A report of which nothing was accepted has no row to be in: it is kept like a control record.
        if let Record::Reported { pilot, seq, results, at } = record
            && !results.is_empty()
        {
            let report = Report { pilot: *pilot, seq: *seq, at: *at };
            for (position, result) in results.iter().enumerate() {
                let chain = self.put_result(&report, position, result)?;
                self.end = End { next_seq: self.end.next_seq + 1, chain };
            }
            return Ok(());
        }
        let mut failures = Vec::new();
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
                failures.push(self.put_failure(*pilot, *at, number, &row)?);
            }
        }
        if let Record::PilotRegistered { pilot, born_at, .. } = record {
            let mut statement = self.transaction.prepare_cached(PILOT)?;
            statement.execute(params![ordered("pilot", pilot.0)?, bits(born_at.0)])?;
        }
        let json = serde_json::to_string(record)?;
        let values = [
            ValueRef::Integer(self.end.next_seq),
            ValueRef::Text(kind(record).as_bytes()),
            ValueRef::Integer(bits(record.at().0)),
            ValueRef::Text(json.as_bytes()),
        ];
        let sum = sums::of_values("journal", values);
        let chain = sums::chained(self.end.chain, sum, &failures);
        insert_values(self.transaction, JOURNAL, values.into_iter().chain([ValueRef::Integer(chain)]))?;
        self.end = End { next_seq: self.end.next_seq + 1, chain };
        Ok(())
    }

    /// Says the chained sum of the row.
    fn put_result(&self, report: &Report, position: usize, result: &JobResult) -> Result<i64, Fault> {
        let job = ordered("job", result.job.0)?;
        let failures = self.put_failures(report, result)?;
        let left = self.put_left(job, result)?;
        let tasks = &result.successes.tasks;
        let ends = tasks.first().zip(tasks.iter().last().map(|range| range.end - 1));
        let ends = ends.map(|(first, last)| Extent::of(first, last)).transpose()?;
        let totals = &result.totals;
        let (ranges, columns) = (columns::pack_ranges(tasks), columns::pack_columns(&result.successes));
        let columns = ValueRef::Blob(&columns);
        let integers =
            [position as i64, ordered("pilot", report.pilot.0)?, bits(report.seq), job, bits(report.at.0)];
        let extent = [
            ends.as_ref().map(|ends| ends.first),
            ends.as_ref().map(|ends| ends.last),
            ends.as_ref().map(|ends| i64::from(ends.level)),
        ];
        let amounts = [
            tasks.len(),
            totals.n,
            totals.wall_us,
            totals.wall_squared,
            totals.cpu_us,
            totals.memory_bytes_max,
        ];
        let mut values = vec![ValueRef::Integer(self.end.next_seq)];
        values.extend(integers.map(ValueRef::Integer));
        values.extend(extent.map(maybe));
        values.extend(amounts.map(|amount| ValueRef::Integer(bits(amount))));
        values.push(ValueRef::Blob(&ranges));
        values.push(ValueRef::Integer(sums::of_values("columns", [columns])));
        values.push(ValueRef::Integer(sums::of_sums(&left)));
        let sum = sums::of_values("reports", values.iter().copied());
        let chain = sums::chained(self.end.chain, sum, &failures);
        values.extend([ValueRef::Integer(sum), ValueRef::Integer(chain), columns]);
        insert_values(self.transaction, REPORT, values)?;
        Ok(chain)
    }

    /// Writes what tasks have left: outputs, then files. Says the sums of their rows.
    fn put_left(&self, job: i64, result: &JobResult) -> Result<Vec<i64>, Fault> {
        let mut sums = Vec::new();
        for chunk in frames::pack_outputs(&result.outputs) {
            let ends = Extent::of(chunk.first_index, chunk.last_index)?;
            let [seq, job, first, last, level] =
                [self.end.next_seq, job, ends.first, ends.last, ends.level.into()].map(ValueRef::Integer);
            let values = [seq, job, first, last, level, ValueRef::Blob(&chunk.frames)];
            sums.push(insert(self.transaction, ("outputs", OUTPUT), &values)?);
        }
        for (index, file) in result.files.iter().flat_map(|of| of.files.iter().map(|file| (of.index, file))) {
            let (path, bytes) = file.packed();
            let sha256 = file.sha256.to_string();
            let values = [
                ValueRef::Integer(self.end.next_seq),
                ValueRef::Integer(job),
                ValueRef::Integer(ordered("task index", index)?),
                ValueRef::Text(path.as_bytes()),
                ValueRef::Text(sha256.as_bytes()),
                ValueRef::Integer(bits(bytes)),
            ];
            sums.push(insert(self.transaction, ("files", FILE), &values)?);
        }
        Ok(sums)
    }

    /// Writes the failed attempts of a result: one row for all, or one each where there are few. Returns the sums of
    /// the rows.
    fn put_failures(&self, report: &Report, result: &JobResult) -> Result<Vec<i64>, Fault> {
        if result.failures.len() >= N_PACKED_MIN
            && let Some(packed) = failures::pack(report.at, &result.failures)?
        {
            let ends = Extent::of(packed.first_index, packed.last_index)?;
            let [seq, job, pilot, at, first, last, level, n] = [
                self.end.next_seq,
                ordered("job", result.job.0)?,
                ordered("pilot", report.pilot.0)?,
                bits(report.at.0),
                ends.first,
                ends.last,
                ends.level.into(),
                bits(result.failures.len() as u64),
            ]
            .map(ValueRef::Integer);
            let (kinds, columns) = (ValueRef::Text(packed.kinds.as_bytes()), ValueRef::Blob(&packed.columns));
            let values = [seq, job, pilot, at, first, last, level, n, kinds, columns];
            return Ok(vec![insert(self.transaction, ("failure_packs", FAILURE_PACK), &values)?]);
        }
        let mut sums = Vec::new();
        for (number, failure) in result.failures.iter().enumerate() {
            let FailedAttempt { index, attempt, kind, usage, verdict } = failure;
            let (index, attempt, verdict) = (*index, *attempt, *verdict);
            let row = FailureRow { job: result.job, index, attempt, kind, usage: Some(usage), verdict };
            sums.push(self.put_failure(report.pilot, report.at, number, &row)?);
        }
        Ok(sums)
    }

    fn put_failure(
        &self,
        pilot: PilotId,
        at: Time,
        number: usize,
        row: &FailureRow<'_>,
    ) -> Result<i64, Fault> {
        let retry_at = match row.verdict {
            Verdict::Retry { at } => Some(bits(at.0)),
            Verdict::Final => None,
        };
        let failure = serde_json::to_string(row.kind)?;
        let [seq, number, job, index, attempt, pilot, at] = [
            self.end.next_seq,
            number as i64,
            ordered("job", row.job.0)?,
            ordered("task index", row.index)?,
            i64::from(row.attempt),
            ordered("pilot", pilot.0)?,
            bits(at.0),
        ]
        .map(ValueRef::Integer);
        let (kind, failure) =
            (ValueRef::Text(row.kind.word().as_bytes()), ValueRef::Text(failure.as_bytes()));
        let used = |amount: fn(&Usage) -> u64| maybe(row.usage.map(|usage| bits(amount(usage))));
        let values = [
            seq,
            number,
            job,
            index,
            attempt,
            pilot,
            at,
            kind,
            failure,
            used(|usage| usage.started_us),
            used(|usage| usage.wall_us),
            used(|usage| usage.cpu_us),
            used(|usage| usage.memory_bytes),
            maybe(retry_at),
        ];
        insert(self.transaction, ("failures", FAILURE), &values)
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
        Record::TokenMade { .. } => "token-made",
        Record::TokensRevoked { .. } => "tokens-revoked",
        Record::TokensUsed { .. } => "tokens-used",
        Record::JobAccepted { .. } => "job-accepted",
        Record::JobPaused { .. } => "job-paused",
        Record::JobResumed { .. } => "job-resumed",
        Record::JobPurged { .. } => "job-purged",
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
