//! Opens a store's file: refuses what is no store, checks it, and brings it to the newest version.

use rusqlite::Connection;

use super::{
    check,
    error::Fault,
    schema::{self, Identity, Migration},
};

/// Larger stores are not checked as a whole at each start: replay reads and checks all that decides.
const CHECK_BYTES_MAX: i64 = 256 << 20;

/// Makes a connection's file a store of the newest version, checks it and counts its epoch up.
pub(super) fn prepare(connection: &mut Connection, migrations: &[Migration]) -> Result<Identity, Fault> {
    schema::check_origin(connection, migrations)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::NoWal);
    }
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
         PRAGMA journal_size_limit = 67108864; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;",
    )?;
    for damage in check_whole(connection)? {
        tracing::error!(damage, "something in the store is damaged and cannot be read");
    }
    schema::check_version(connection)?;
    schema::check_sums(connection)?;
    schema::migrate(connection, migrations)?;
    schema::count_epoch(connection, 0)
}

/// Checks a store that is only read; its epoch stays.
pub(super) fn identify(connection: &Connection, migrations: &[Migration]) -> Result<Identity, Fault> {
    schema::check_origin(connection, migrations)?;
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;")?;
    let found = schema::version(connection)?;
    if migrations.last().is_some_and(|last| found < last.version) {
        return Err(Fault::TooOld { found });
    }
    check_whole(connection)?;
    schema::check_version(connection)?;
    schema::check_sums(connection)?;
    Ok(Identity { id: schema::take(connection, "id")?, epoch: schema::take(connection, "epoch")? })
}

/// Checks a store of up to [`CHECK_BYTES_MAX`] as a whole: its pages, that indices have what tables have, and the rows
/// that a replay does not read. Gives the damage that can be left, since whoever reads there is told.
fn check_whole(connection: &Connection) -> Result<Vec<String>, Fault> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if pragma("page_count")?.saturating_mul(pragma("page_size")?) > CHECK_BYTES_MAX {
        return Ok(Vec::new());
    }
    check::hidden(connection)
}
