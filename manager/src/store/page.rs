//! Pages of a job's tasks, put together from reports whose ranges overlap.
//!
//! Tasks finish out of order, so the reports of a job interleave, and a few are very wide. A page
//! from index `a` needs those that begin before `a` and reach it, and those that begin at `a` or
//! later, until the page is full. The latter are a scan by first index. The former are found by
//! `level`: a range of level n is less than 2^n wide, so it can only reach `a` when it begins in
//! the 2^n indices before. One short scan a level, of which about every second row is a hit.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
};

use rusqlite::{Connection, Row, Transaction, params};
use scheduler::{
    engine::record::Verdict,
    ids::{JobId, PilotId, TaskId},
    results::{FailureKind, TaskOutput, Usage},
    time::Time,
};

use super::{
    INDEX_MAX,
    error::Fault,
    packed::{columns, frames},
    replay::{amount, damaged, read_kind, read_pack},
    sums,
};

/// Levels of ranges: widths below 2^0 .. 2^63.
const LEVEL_MAX: u32 = 63;

const FAILURES: &str = "SELECT * FROM failures WHERE job = ?1 AND task_index >= ?2 AND task_index < ?3 \
    ORDER BY task_index, seq, number";

/// An attempt as its row shows it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) seq: i64,
    pub(super) index: u64,
    pub(super) attempt: u32,
    pub(super) pilot: PilotId,
    /// When it was recorded.
    pub(super) at: Time,
    /// Not known when the pilot was lost.
    pub(super) usage: Option<Usage>,
    pub(super) exit_code: i32,
    pub(super) failure: Option<FailureKind>,
    pub(super) is_final: bool,
}

/// Outputs, some of which may be damaged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutputPage {
    /// As [`Reader::outputs`](super::Reader::outputs) gives them.
    pub found: Vec<(u64, TaskOutput)>,
    /// First and last tasks of rows that are damaged.
    pub damaged: Vec<(u64, u64)>,
}

/// See [`super::Reader::finished`].
pub(super) fn finished(
    snapshot: &Transaction<'_>,
    job: JobId,
    range: Range<u64>,
    limit: usize,
) -> Result<Vec<Found>, Fault> {
    let mut page: BTreeMap<u64, Found> = BTreeMap::new();
    if limit == 0 {
        return Ok(Vec::new());
    }
    sweep(snapshot, &REPORTS, job, range.clone(), |row| {
        let end = end_of(&page, limit, range.end);
        read_successes(row, range.start..end, |found| {
            let is_newer = page.get(&found.index).is_none_or(|held| held.seq < found.seq);
            if is_newer {
                page.insert(found.index, found);
            }
        })?;
        while page.len() > limit {
            page.pop_last();
        }
        Ok(end_of(&page, limit, range.end))
    })?;
    sweep(snapshot, &FAILURE_PACKS, job, range.clone(), |row| {
        let end = end_of(&page, limit, range.end);
        for failed in read_failures(row, range.start..end)? {
            add_failure(&mut page, failed);
        }
        while page.len() > limit {
            page.pop_last();
        }
        Ok(end_of(&page, limit, range.end))
    })?;
    let mut statement = snapshot.prepare_cached(FAILURES)?;
    let end = end_of(&page, limit, range.end);
    let mut rows = statement.query(params![job.0.cast_signed(), clamp(range.start), clamp(end)])?;
    while let Some(row) = rows.next()? {
        let failed = read_failure(row)?;
        if failed.index >= end_of(&page, limit, range.end) {
            break;
        }
        add_failure(&mut page, failed);
        if page.len() > limit {
            page.pop_last();
        }
    }
    Ok(page.into_values().collect())
}

/// Returns the end of the page so far: tasks at this index or later no longer come onto it.
fn end_of<T>(page: &BTreeMap<u64, T>, limit: usize, end: u64) -> u64 {
    match page.last_key_value() {
        Some((last, _)) if page.len() >= limit => end.min(last + 1),
        _ => end,
    }
}

/// Every failure makes a later attempt's number one larger.
fn add_failure(page: &mut BTreeMap<u64, Found>, failed: Found) {
    match page.entry(failed.index) {
        Entry::Vacant(place) => {
            place.insert(failed);
        }
        Entry::Occupied(mut held) => {
            let attempt = held.get().attempt.saturating_add(1);
            if failed.seq > held.get().seq {
                held.insert(failed);
            }
            held.get_mut().attempt = attempt;
        }
    }
}

/// See [`super::Reader::attempts`].
pub(super) fn attempts(snapshot: &Transaction<'_>, task: TaskId) -> Result<Vec<Found>, Fault> {
    let range = task.index..task.index.saturating_add(1);
    let mut found = Vec::new();
    let mut statement = snapshot.prepare_cached(FAILURES)?;
    let mut rows =
        statement.query(params![task.job.0.cast_signed(), clamp(range.start), clamp(range.end)])?;
    while let Some(row) = rows.next()? {
        found.push(read_failure(row)?);
    }
    sweep(snapshot, &FAILURE_PACKS, task.job, range.clone(), |row| {
        found.extend(read_failures(row, range.clone())?);
        Ok(range.end)
    })?;
    sweep(snapshot, &REPORTS, task.job, range.clone(), |row| {
        read_successes(row, range.clone(), |success| found.push(success))?;
        Ok(range.end)
    })?;
    found.sort_by_key(|attempt| attempt.seq);
    for (attempt, n) in found.iter_mut().zip(1..) {
        attempt.attempt = n;
    }
    Ok(found)
}

/// See [`super::Reader::outputs`].
pub(super) fn outputs(
    snapshot: &Transaction<'_>,
    job: JobId,
    range: Range<u64>,
    limit_bytes: u64,
) -> Result<Vec<(u64, TaskOutput)>, Fault> {
    outputs_unless(snapshot, job, (range, limit_bytes), |row, what| Err(damaged(row, what)))
}

/// See [`super::Reader::outputs_around_damage`].
pub(super) fn outputs_around_damage(
    snapshot: &Transaction<'_>,
    job: JobId,
    range: Range<u64>,
    limit_bytes: u64,
) -> Result<OutputPage, Fault> {
    let mut spoilt = Vec::new();
    let found = outputs_unless(snapshot, job, (range, limit_bytes), |row, _| {
        spoilt.push((amount(row, 2)?, amount(row, 3)?));
        Ok(())
    })?;
    Ok(OutputPage { found, damaged: spoilt })
}

/// See [`super::Store::output_bytes`].
pub(super) fn output_bytes(connection: &Connection, job: JobId) -> Result<u64, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT coalesce(sum(length(frames)), 0) FROM outputs WHERE job = ?1")?;
    Ok(statement.query_row([job.0.cast_signed()], |row| row.get::<_, i64>(0))?.cast_unsigned())
}

/// The same of each job that has some. Reads of each row how long it is.
pub(super) fn all_output_bytes(connection: &Connection) -> Result<Vec<(JobId, u64)>, Fault> {
    let mut statement = connection.prepare("SELECT job, sum(length(frames)) FROM outputs GROUP BY job")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    rows.map(|row| row.map(|(job, n)| (JobId(job.cast_unsigned()), n.cast_unsigned())).map_err(Fault::from))
        .collect()
}

/// Returns outputs. Calls `on_damage` for each damaged row: frames behind the damage cannot be found.
fn outputs_unless(
    snapshot: &Transaction<'_>,
    job: JobId,
    (range, limit_bytes): (Range<u64>, u64),
    mut on_damage: impl FnMut(&Row<'_>, &'static str) -> Result<(), Fault>,
) -> Result<Vec<(u64, TaskOutput)>, Fault> {
    let mut page: BTreeMap<u64, (i64, TaskOutput)> = BTreeMap::new();
    let (mut n_bytes, mut end) = (0u64, range.end);
    sweep(snapshot, &OUTPUTS, job, range.clone(), |row| {
        let seq: i64 = row.get(0)?;
        let frames = row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?;
        let (mut frames, fault) = frames::readable(frames, sums::is_whole("outputs", row, 0..6)?);
        if let Some(what) = fault {
            on_damage(row, what)?;
        }
        while let Ok(frame) = frames::take_frame(&mut frames) {
            if (range.start..end).contains(&frame.index) {
                n_bytes = add_frame(&mut page, seq, &frame, n_bytes);
            }
        }
        while page.len() > 1 {
            let Some(last) = page.last_entry() else { break };
            let n_before = n_bytes - n_bytes_of(&last.get().1);
            if n_before < limit_bytes {
                break;
            }
            end = *last.key();
            n_bytes = n_before;
            last.remove();
        }
        // Once full, the page never grows again, even when a later record has a shorter output.
        if let Some((last, _)) = page.last_key_value()
            && n_bytes >= limit_bytes
        {
            end = end.min(last + 1);
        }
        Ok(end)
    })?;
    Ok(page.into_iter().map(|(index, (_, output))| (index, output)).collect())
}

/// Adds a frame to its task's output, unless a later record has another one; says how much the page holds.
fn add_frame(
    page: &mut BTreeMap<u64, (i64, TaskOutput)>,
    seq: i64,
    frame: &frames::Frame<'_>,
    n_bytes: u64,
) -> u64 {
    let empty = TaskOutput { index: frame.index, stdout: Vec::new(), stderr: Vec::new() };
    let (held_seq, held) = page.entry(frame.index).or_insert_with(|| (seq, empty.clone()));
    if *held_seq > seq {
        return n_bytes;
    }
    let n_others = n_bytes - n_bytes_of(held);
    if *held_seq < seq {
        (*held_seq, *held) = (seq, empty);
    }
    held.stdout.extend_from_slice(frame.stdout);
    held.stderr.extend_from_slice(frame.stderr);
    n_others + n_bytes_of(held)
}

fn n_bytes_of(output: &TaskOutput) -> u64 {
    (output.stdout.len() + output.stderr.len()) as u64
}

/// How to read rows that have a first and a last index: their number comes first.
struct Source {
    /// Those of a level that begin before an index and reach it.
    across: &'static str,
    /// Those that begin in a range, ascending.
    within: &'static str,
    /// The column of the first index.
    first_index: usize,
}

const REPORTS: Source = Source {
    across: "SELECT seq, position, pilot, report_seq, job, at, first_index, last_index, level, n_tasks, n_attempts, \
        wall_us, wall_squared, cpu_us, memory_bytes_max, ranges, columns_sum, left_sum, sum, columns FROM reports \
        WHERE job = ?1 AND level = ?2 AND first_index >= ?3 AND first_index < ?4 AND last_index >= ?4",
    within: "SELECT seq, position, pilot, report_seq, job, at, first_index, last_index, level, n_tasks, n_attempts, \
        wall_us, wall_squared, cpu_us, memory_bytes_max, ranges, columns_sum, left_sum, sum, columns FROM reports \
        WHERE job = ?1 AND first_index >= ?2 AND first_index < ?3 ORDER BY first_index, seq",
    first_index: 6,
};

const FAILURE_PACKS: Source = Source {
    across: "SELECT seq, job, pilot, at, first_index, last_index, level, n_failures, kinds, columns, sum \
        FROM failure_packs \
        WHERE job = ?1 AND level = ?2 AND first_index >= ?3 AND first_index < ?4 AND last_index >= ?4",
    within: "SELECT seq, job, pilot, at, first_index, last_index, level, n_failures, kinds, columns, sum \
        FROM failure_packs \
        WHERE job = ?1 AND first_index >= ?2 AND first_index < ?3 ORDER BY first_index, seq",
    first_index: 4,
};

const OUTPUTS: Source = Source {
    across: "SELECT seq, job, first_index, last_index, level, frames, sum FROM outputs \
        WHERE job = ?1 AND level = ?2 AND first_index >= ?3 AND first_index < ?4 AND last_index >= ?4",
    within: "SELECT seq, job, first_index, last_index, level, frames, sum FROM outputs \
        WHERE job = ?1 AND first_index >= ?2 AND first_index < ?3 ORDER BY first_index, id",
    first_index: 2,
};

/// Visits the rows that overlap a range. Each visit says where the page ends by now: rows that
/// begin there or later are not visited.
fn sweep(
    snapshot: &Transaction<'_>,
    source: &Source,
    job: JobId,
    range: Range<u64>,
    mut visit: impl FnMut(&Row<'_>) -> Result<u64, Fault>,
) -> Result<(), Fault> {
    let (job, start, mut end) = (job.0.cast_signed(), clamp(range.start), range.end);
    if range.start >= end {
        return Ok(());
    }
    let mut statement = snapshot.prepare_cached(source.across)?;
    for level in 1..=LEVEL_MAX {
        let reach = (1u64 << level) - 1;
        let mut rows =
            statement.query(params![job, level, clamp(range.start.saturating_sub(reach)), start])?;
        while let Some(row) = rows.next()? {
            end = visit(row)?;
        }
    }
    let mut statement = snapshot.prepare_cached(source.within)?;
    let mut rows = statement.query(params![job, start, clamp(end)])?;
    while let Some(row) = rows.next()? {
        if amount(row, source.first_index)? >= end {
            break;
        }
        end = visit(row)?;
    }
    Ok(())
}

/// No index in the store is larger.
fn clamp(index: u64) -> i64 {
    index.min(INDEX_MAX + 1).cast_signed()
}

fn read_successes(row: &Row<'_>, range: Range<u64>, mut take: impl FnMut(Found)) -> Result<(), Fault> {
    let blob = |column| row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from);
    let ranges = blob(15)?;
    if !sums::is_whole("reports", row, 0..18)? {
        return Err(damaged(row, "its checksum is wrong"));
    }
    // Of the reports that overlap, most have none of a small page's tasks.
    if !columns::has_any_of(ranges, &range).map_err(|what| damaged(row, what))? {
        return Ok(());
    }
    let tasks = columns::unpack_ranges(ranges).map_err(|what| damaged(row, what))?;
    let noted: Option<i64> = row.get(16)?;
    let sum = sums::of_values("columns", [row.get_ref(19)?]);
    if noted.is_some_and(|noted| !sums::is_same(noted, sum)) {
        return Err(damaged(row, "the checksum of its columns is wrong"));
    }
    let successes = columns::unpack_columns(tasks, blob(19)?).map_err(|what| damaged(row, what))?;
    let (seq, pilot, at) = (row.get(0)?, PilotId(amount(row, 2)?), Time(amount(row, 5)?));
    let attempts = successes.attempts().skip_while(|(index, ..)| *index < range.start);
    for (index, exit_code, usage) in attempts.take_while(|(index, ..)| *index < range.end) {
        let (usage, failure) = (Some(usage), None);
        take(Found { seq, index, attempt: 1, pilot, at, usage, exit_code, failure, is_final: true });
    }
    Ok(())
}

fn read_failure(row: &Row<'_>) -> Result<Found, Fault> {
    if !sums::is_whole("failures", row, 0..14)? {
        return Err(damaged(row, "the checksum of a failure is wrong"));
    }
    let started: Option<i64> = row.get(9)?;
    let usage = match started {
        Some(started) => Some(Usage {
            started_us: started.cast_unsigned(),
            wall_us: amount(row, 10)?,
            cpu_us: amount(row, 11)?,
            memory_bytes: amount(row, 12)?,
        }),
        None => None,
    };
    Ok(Found {
        seq: row.get(0)?,
        index: amount(row, 3)?,
        attempt: 1,
        pilot: PilotId(amount(row, 5)?),
        at: Time(amount(row, 6)?),
        usage,
        exit_code: 0,
        failure: Some(read_kind(row, 8)?),
        is_final: row.get::<_, Option<i64>>(13)?.is_none(),
    })
}

/// The failed attempts of some tasks from a row of `failure_packs`.
fn read_failures(row: &Row<'_>, tasks: Range<u64>) -> Result<Vec<Found>, Fault> {
    let (seq, pilot, at) = (row.get(0)?, PilotId(amount(row, 2)?), Time(amount(row, 3)?));
    let found = read_pack(row, &tasks)?.into_iter().map(|failed| Found {
        seq,
        index: failed.index,
        attempt: 1,
        pilot,
        at,
        usage: Some(failed.usage),
        exit_code: 0,
        failure: Some(failed.kind),
        is_final: failed.verdict == Verdict::Final,
    });
    Ok(found.collect())
}
