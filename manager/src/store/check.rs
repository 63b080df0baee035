//! A store checked as a whole: its pages, its indices, and the rows that a replay does not read.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, Rows};
use scheduler::ids::JobId;

use super::{
    Access, FILE, StoreError, at_rest, connect, error::Fault, lock, log::Log, log_of, look_at, purge, replay,
    schema, sums,
};

const REPORTS: &str = "SELECT seq, columns, columns_sum, left_sum, job FROM reports ORDER BY seq";
const OUTPUTS: &str =
    "SELECT seq, job, first_index, last_index, level, frames, sum FROM outputs NOT INDEXED ORDER BY id";
const FILES: &str =
    "SELECT seq, job, task_index, path, sha256, bytes, sum FROM files NOT INDEXED ORDER BY id";

/// The result of a check of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// How many records it has.
    pub n_records: u64,
    /// How many of them, the first ones, were written by versions that kept no checksums.
    pub n_without_sums: u64,
    /// The damage found, each with its place; none if the store is whole.
    pub found: Vec<String>,
}

/// Checks everything in the store in a folder, also while its manager runs: the log beside it, pages, indices,
/// checksums, and the replay. Finds `n_max` things at most. Changes nothing.
///
/// Errors: there is no store, or it cannot be read. Cost: several readings of the whole store.
pub fn check(folder: &Path, n_max: usize) -> Result<Checked, StoreError> {
    let path = folder.join(FILE);
    let log = log_of(&path);
    // A log that is being written would look damaged.
    if lock::is_free(folder)
        && let Log::Damaged(found) = look_at(&log)?
    {
        return Ok(Checked { found: vec![format!("{}: {found}", log.display())], ..Checked::default() });
    }
    let access = if at_rest(&path).is_some() { Access::ReadUnchanging } else { Access::Read };
    let connection = connect(&path, access)?;
    let failed = |fault: Fault| fault.at(&path, "check");
    schema::check_origin(&connection, schema::MIGRATIONS)
        .and_then(|()| schema::check_has_sums(&connection))
        .map_err(failed)?;
    let mut checked = Checked::default();
    let replayed = || {
        schema::check_version(&connection)?;
        schema::check_sums(&connection)?;
        let mut n_records = 0;
        replay::replay(&connection, |_| n_records += 1)?;
        Ok(n_records)
    };
    checked.found = whole(&connection, n_max).or_else(as_finding).map_err(failed)?;
    match replayed() {
        Ok(n_records) => checked.n_records = n_records,
        Err(fault) => checked.found.extend(as_finding(fault).map_err(failed)?),
    }
    checked.found.truncate(n_max);
    let summed_after = schema::summed_after(&connection).unwrap_or_default().cast_unsigned();
    checked.n_without_sums = summed_after.min(checked.n_records);
    Ok(checked)
}

/// Damage in words; what is no damage is an error.
fn as_finding(fault: Fault) -> Result<Vec<String>, Fault> {
    match fault {
        Fault::Damaged(what) => Ok(vec![what]),
        Fault::Sqlite(error) if is_damage(&error) => Ok(vec![error.to_string()]),
        other => Err(other),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), None | Some(ErrorCode::DatabaseCorrupt))
}

/// Returns the damage of a store's pages and rows, `n_max` findings at most; none if it is whole.
fn whole(connection: &Connection, n_max: usize) -> Result<Vec<String>, Fault> {
    let found = pages(connection, n_max)?;
    // Rows of pages that are damaged cannot be read.
    if !found.is_empty() {
        return Ok(found);
    }
    Ok(rows(connection, n_max)?.into_iter().map(|finding| finding.what).collect())
}

/// Refuses damage that no reader of the store would notice. Returns the damage that readers report themselves.
pub(super) fn hidden(connection: &Connection) -> Result<Vec<String>, Fault> {
    /// Findings that are told of in a log at most.
    const N_TOLD_MAX: usize = 20;
    if let Some(found) = pages(connection, 1)?.pop() {
        return Err(Fault::Damaged(found));
    }
    let (hidden, open): (Vec<_>, Vec<_>) =
        rows(connection, N_TOLD_MAX)?.into_iter().partition(|finding| finding.is_hidden);
    match hidden.into_iter().next() {
        Some(finding) => Err(Fault::Damaged(finding.what)),
        None => Ok(open.into_iter().map(|finding| finding.what).collect()),
    }
}

/// Damage of rows.
struct Finding {
    what: String,
    /// Whether rows are missing or too many: those that are there look good.
    is_hidden: bool,
}

impl Finding {
    fn hidden(seq: i64, what: &str) -> Finding {
        Finding { what: format!("record {seq}: {what}"), is_hidden: true }
    }

    fn open(seq: i64, what: &str) -> Finding {
        Finding { what: format!("record {seq}: {what}"), is_hidden: false }
    }
}

/// Returns the damage that SQLite finds: pages, and indices that differ from their tables.
fn pages(connection: &Connection, n_max: usize) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({n_max})"))?;
    let found: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    // A finding may begin with a heading.
    let lines = found.iter().filter_map(|found| found.lines().rfind(|line| !line.is_empty()));
    Ok(lines.filter(|line| *line != "ok").map(str::to_owned).collect())
}

/// The rows that a replay does not read: columns of reports, outputs and files.
fn rows(connection: &Connection, n_max: usize) -> Result<Vec<Finding>, Fault> {
    // A job may be purged meanwhile.
    let snapshot = connection.unchecked_transaction()?;
    let connection: &Connection = &snapshot;
    let summed_after = schema::summed_after(connection)?;
    let mut found = Vec::new();
    if summed_after == i64::MAX {
        return Ok(found);
    }
    let purged = purge::purged(connection)?;
    let (mut reports, mut outputs) = (connection.prepare(REPORTS)?, connection.prepare(OUTPUTS)?);
    let mut files = connection.prepare(FILES)?;
    let mut reports = reports.query([])?;
    let mut outputs = Left::begin("outputs", outputs.query([])?)?;
    let mut files = Left::begin("files", files.query([])?)?;
    while let Some(row) = reports.next()?
        && found.len() < n_max
    {
        let seq: i64 = row.get(0)?;
        let mut left = Vec::new();
        for table in [&mut outputs, &mut files] {
            table.take(seq, &mut left, &mut found)?;
        }
        if seq <= summed_after {
            continue;
        }
        let sum = sums::of_values("columns", [row.get_ref(1)?]);
        if row.get::<_, Option<i64>>(2)?.is_none_or(|noted| !sums::is_same(noted, sum)) {
            found.push(Finding::open(seq, "the checksum of its columns is wrong"));
        }
        let job = JobId(row.get::<_, i64>(4)?.cast_unsigned());
        if purged.contains(&job) {
            continue;
        }
        // Where one of its rows is damaged, that is said already.
        let left: Option<Vec<i64>> = left.into_iter().collect();
        let is_noted = |sum| row.get(3).is_ok_and(|noted| sums::is_same(noted, sum));
        if left.is_some_and(|left| !is_noted(sums::of_sums(&left))) {
            found.push(Finding::hidden(
                seq,
                "outputs or files of its tasks are missing, or are those of others",
            ));
        }
    }
    if found.len() < n_max {
        for table in [outputs, files] {
            if let Some((seq, _)) = table.ahead {
                found.push(Finding::hidden(seq, &format!("{} of its tasks belong to no report", table.name)));
            }
        }
    }
    found.truncate(n_max);
    Ok(found)
}

/// Rows of what tasks have left, in the order in which they were written; one of them is read ahead.
struct Left<'s> {
    name: &'static str,
    rows: Rows<'s>,
    /// A record's number, and the row's sum if it is right.
    ahead: Option<(i64, Option<i64>)>,
}

impl<'s> Left<'s> {
    fn begin(name: &'static str, rows: Rows<'s>) -> Result<Left<'s>, Fault> {
        let mut left = Left { name, rows, ahead: None };
        left.advance()?;
        Ok(left)
    }

    fn advance(&mut self) -> Result<(), Fault> {
        self.ahead = match self.rows.next()? {
            Some(row) => {
                let sum = sums::of_row(self.name, row, 0..6)?;
                Some((row.get(0)?, sums::is_whole(self.name, row, 0..6)?.then_some(sum)))
            }
            None => None,
        };
        Ok(())
    }

    /// Takes the rows of a record.
    fn take(&mut self, seq: i64, sums: &mut Vec<Option<i64>>, found: &mut Vec<Finding>) -> Result<(), Fault> {
        while let Some((of, sum)) = self.ahead.filter(|(of, _)| *of <= seq) {
            if of < seq {
                found.push(Finding::hidden(of, &format!("{} of its tasks belong to no report", self.name)));
            }
            if sum.is_none() {
                found
                    .push(Finding::open(of, &format!("the checksum of {} of its tasks is wrong", self.name)));
            }
            if of == seq {
                sums.push(sum);
            }
            self.advance()?;
        }
        Ok(())
    }
}
