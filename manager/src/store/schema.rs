//! The tables and their versions. Columns and formats are explained in `docs/store.md`.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::{error::Fault, sums::Sum};

/// Marks a file as ours: "PFSH".
const APPLICATION_ID: i64 = 0x5046_5348;

/// One step from a version to the next.
pub(super) struct Migration {
    /// The version it leads to: one more than that before.
    pub(super) version: i64,
    /// Its statements, run in one transaction.
    pub(super) sql: &'static str,
}

/// All steps, in order. A step that was released is never changed.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: VERSION_1 },
    Migration { version: 2, sql: VERSION_2 },
    Migration { version: 3, sql: VERSION_3 },
    Migration { version: 4, sql: VERSION_4 },
];

const VERSION_1: &str = "
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;

CREATE TABLE reports (
    seq INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    pilot INTEGER NOT NULL,
    report_seq INTEGER NOT NULL,
    job INTEGER NOT NULL,
    at INTEGER NOT NULL,
    first_index INTEGER,
    last_index INTEGER,
    level INTEGER,
    n_tasks INTEGER NOT NULL,
    n_attempts INTEGER NOT NULL,
    wall_us INTEGER NOT NULL,
    wall_squared INTEGER NOT NULL,
    cpu_us INTEGER NOT NULL,
    memory_bytes_max INTEGER NOT NULL,
    ranges BLOB NOT NULL,
    columns BLOB NOT NULL
) STRICT;
CREATE INDEX reports_by_first ON reports (job, first_index) WHERE first_index IS NOT NULL;
CREATE INDEX reports_by_level ON reports (job, level, first_index) WHERE first_index IS NOT NULL;

CREATE TABLE failures (
    seq INTEGER NOT NULL,
    number INTEGER NOT NULL,
    job INTEGER NOT NULL,
    task_index INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    pilot INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    failure TEXT NOT NULL,
    started_us INTEGER,
    wall_us INTEGER,
    cpu_us INTEGER,
    memory_bytes INTEGER,
    retry_at INTEGER,
    PRIMARY KEY (seq, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX failures_by_task ON failures (job, task_index);

CREATE TABLE outputs (
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    job INTEGER NOT NULL,
    first_index INTEGER NOT NULL,
    last_index INTEGER NOT NULL,
    level INTEGER NOT NULL,
    frames BLOB NOT NULL
) STRICT;
CREATE INDEX outputs_by_first ON outputs (job, first_index);
CREATE INDEX outputs_by_level ON outputs (job, level, first_index);

CREATE TABLE pilots (
    pilot INTEGER PRIMARY KEY,
    born_at INTEGER NOT NULL
) STRICT;

INSERT INTO meta VALUES ('epoch', '0');
";

/// Files that tasks have left.
const VERSION_2: &str = "
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    job INTEGER NOT NULL,
    task_index INTEGER NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX files_by_job ON files (job, id);
CREATE INDEX files_by_task ON files (job, task_index, id);
";

/// Checksums of rows. Rows of before have none: those up to the record `summed_after`.
const VERSION_3: &str = "
ALTER TABLE journal ADD COLUMN chain INTEGER;
ALTER TABLE reports ADD COLUMN columns_sum INTEGER;
ALTER TABLE reports ADD COLUMN left_sum INTEGER;
ALTER TABLE reports ADD COLUMN sum INTEGER;
ALTER TABLE reports ADD COLUMN chain INTEGER;
ALTER TABLE failures ADD COLUMN sum INTEGER;
ALTER TABLE outputs ADD COLUMN sum INTEGER;
ALTER TABLE files ADD COLUMN sum INTEGER;
INSERT INTO meta SELECT 'summed_after',
    max(coalesce((SELECT max(seq) FROM journal), 0), coalesce((SELECT max(seq) FROM reports), 0));
";

/// Failed attempts of a report in one row, where they are several.
const VERSION_4: &str = "
CREATE TABLE failure_packs (
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    pilot INTEGER NOT NULL,
    at INTEGER NOT NULL,
    first_index INTEGER NOT NULL,
    last_index INTEGER NOT NULL,
    level INTEGER NOT NULL,
    n_failures INTEGER NOT NULL,
    kinds TEXT NOT NULL,
    columns BLOB NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE INDEX failure_packs_by_first ON failure_packs (job, first_index);
CREATE INDEX failure_packs_by_level ON failure_packs (job, level, first_index);
";

/// The version from which on rows have checksums.
const WITH_SUMS: i64 = 3;
/// The version from which on there are packs of failures.
const WITH_FAILURE_PACKS: i64 = 4;
/// The name in `meta` of the sum of its other rows, and of that of the definitions of the tables.
const META_SUM: &str = "sum";
const SCHEMA_SUM: &str = "schema_sum";

/// The identity of a store and of its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    /// Drawn when the store was made.
    pub(super) id: u64,
    /// Larger at each opening, and so in every copy of the store: the time of day in seconds at least.
    pub(super) epoch: u64,
}

/// A value of `meta`, if there is one.
pub(super) fn get(connection: &Connection, name: &str) -> Result<Option<String>, Fault> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?)
}

/// Returns the version of a store's schema; 0 of a file that is no store yet.
pub(super) fn version(connection: &Connection) -> Result<i64, Fault> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Refuses files of other programs and stores of newer versions, before anything is written.
pub(super) fn check_origin(connection: &Connection, migrations: &[Migration]) -> Result<(), Fault> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (pragma("application_id")?, pragma("user_version")?);
    let n_tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let is_new = application == 0 && found == 0 && n_tables == 0;
    if application != APPLICATION_ID && !is_new {
        return Err(Fault::NotAStore("an SQLite file of another program"));
    }
    let known = migrations.last().map_or(0, |last| last.version);
    if found > known {
        return Err(Fault::TooNew { found, known });
    }
    Ok(())
}

/// The version is in two places.
pub(super) fn check_version(connection: &Connection) -> Result<(), Fault> {
    let version = version(connection)?;
    if version == 0 {
        return Ok(());
    }
    let noted = take(connection, "schema_version")?;
    if noted != version.cast_unsigned() {
        return Err(Fault::Damaged(format!("meta says schema version {noted}, the file's head {version}")));
    }
    Ok(())
}

/// Checks the sums of `meta` and of the definitions of the tables, where there are any yet.
pub(super) fn check_sums(connection: &Connection) -> Result<(), Fault> {
    let version = version(connection)?;
    if version < WITH_SUMS {
        return Ok(());
    }
    if take(connection, META_SUM)? != meta_sum(connection)? {
        return Err(Fault::Damaged("the checksum of the table meta is wrong".to_owned()));
    }
    if take(connection, SCHEMA_SUM)? != schema_sum(connection)? {
        return Err(Fault::Damaged("the checksum of the definitions of its tables is wrong".to_owned()));
    }
    Ok(())
}

fn meta_sum(connection: &Connection) -> Result<u64, Fault> {
    sum_of(connection, "SELECT name, value FROM meta WHERE name <> 'sum' ORDER BY name")
}

fn schema_sum(connection: &Connection) -> Result<u64, Fault> {
    sum_of(connection, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
}

fn sum_of(connection: &Connection, query: &str) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached(query)?;
    let n_columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut sum = Sum::of("meta");
    while let Some(row) = rows.next()? {
        for column in 0..n_columns {
            sum.add(row.get_ref(column)?);
        }
    }
    Ok(u64::from(sum.crc()))
}

/// The last record that was written before rows had sums; 0 where all have.
pub(super) fn summed_after(connection: &Connection) -> Result<i64, Fault> {
    let version = version(connection)?;
    if version < WITH_SUMS {
        return Ok(i64::MAX);
    }
    Ok(take(connection, "summed_after")?.cast_signed())
}

/// Refuses a store whose rows have no checksums yet.
pub(super) fn check_has_sums(connection: &Connection) -> Result<(), Fault> {
    let found = version(connection)?;
    if found < WITH_SUMS { Err(Fault::TooOld { found }) } else { Ok(()) }
}

/// Whether the store has the table of packs of failures.
pub(super) fn has_failure_packs(connection: &Connection) -> Result<bool, Fault> {
    Ok(version(connection)? >= WITH_FAILURE_PACKS)
}

/// Migrates a store to the newest version, step by step.
pub(super) fn migrate(connection: &mut Connection, migrations: &[Migration]) -> Result<(), Fault> {
    let found = version(connection)?;
    for migration in migrations.iter().filter(|migration| migration.version > found) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration.sql)?;
        transaction.pragma_update(None, "user_version", migration.version)?;
        if migration.version >= WITH_SUMS {
            // Stores of version 2 have it only where a later program has opened them.
            transaction.execute_batch("CREATE INDEX IF NOT EXISTS files_by_path ON files (job, path)")?;
            put(&transaction, SCHEMA_SUM, &schema_sum(&transaction)?.to_string())?;
        }
        put(&transaction, "schema_version", &migration.version.to_string())?;
        if migration.version == 1 {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            let drawn: i64 = transaction.query_row("SELECT random()", [], |row| row.get(0))?;
            put(&transaction, "id", &drawn.cast_unsigned().to_string())?;
        }
        transaction.commit()?;
    }
    Ok(())
}

/// Whether the file is a store, of whatever version.
pub(super) fn is_made(connection: &Connection) -> Result<bool, Fault> {
    let version = version(connection)?;
    Ok(version > 0)
}

/// Begins another life of the store, with an epoch that is larger than the last one and than `above`.
pub(super) fn count_epoch(connection: &mut Connection, above: u64) -> Result<Identity, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let drawn: i64 = transaction.query_row("SELECT random()", [], |row| row.get(0))?;
    let epoch = next_epoch(take(&transaction, "epoch")?.max(above), now, drawn.cast_unsigned());
    put(&transaction, "epoch", &epoch.to_string())?;
    let id = take(&transaction, "id")?;
    transaction.commit()?;
    Ok(Identity { id, epoch })
}

/// Milliseconds since 1970, and behind them drawn bits: a store that was put back does not know the epochs after its
/// backup, and must repeat none of them, since pilots would take two lives for one.
fn next_epoch(last: u64, now: Duration, drawn: u64) -> u64 {
    const N_DRAWN_BITS: u32 = 20;
    let millis = u64::try_from(now.as_millis()).unwrap_or_default();
    let of_now = (millis << N_DRAWN_BITS) | (drawn & ((1 << N_DRAWN_BITS) - 1));
    of_now.max(last.saturating_add(1))
}

/// Writes down a value, and draws another id for a copy; gives the id.
pub(super) fn note_home(
    connection: &mut Connection,
    name: &str,
    value: &str,
    is_copy: bool,
) -> Result<u64, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    put(&transaction, name, value)?;
    if is_copy {
        let drawn: i64 = transaction.query_row("SELECT random()", [], |row| row.get(0))?;
        put(&transaction, "id", &drawn.cast_unsigned().to_string())?;
    }
    let id = take(&transaction, "id")?;
    transaction.commit()?;
    Ok(id)
}

/// Writes a value of `meta`, and the sum of all of them.
pub(super) fn put(transaction: &Transaction<'_>, name: &str, value: &str) -> Result<(), Fault> {
    const PUT: &str = "INSERT OR REPLACE INTO meta VALUES (?1, ?2)";
    transaction.execute(PUT, [name, value])?;
    transaction.execute(PUT, [META_SUM, &meta_sum(transaction)?.to_string()])?;
    Ok(())
}

/// Returns a number from `meta`.
pub(super) fn take(connection: &Connection, name: &str) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    let value: Option<String> = statement.query_row([name], |row| row.get(0)).optional()?;
    let value = value.ok_or_else(|| Fault::Damaged(format!("meta has no {name}")))?;
    value.parse().map_err(|_| Fault::Damaged(format!("meta says {name} = {value:?}, a number is right")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::next_epoch;

    #[test]
    fn an_epoch_is_larger_than_the_last_and_not_the_one_of_another_life_of_the_same_moment() {
        let now = Duration::from_millis(1_795_894_458_123);
        let epoch = next_epoch(7, now, 5);
        assert!(epoch > 1 << 60, "{epoch}");
        assert_ne!(epoch, next_epoch(7, now, 6));
        assert_eq!(next_epoch(7, now, 5 + (1 << 20)), epoch, "what is drawn does not touch the time");
        assert!(next_epoch(7, now + Duration::from_millis(1), 0) > epoch);
        assert_eq!(next_epoch(epoch, Duration::ZERO, 0), epoch + 1, "the clock was set back");
    }
}
