//! The durable store: what the engine records, in one SQLite file, written by one connection.
//!
//! It knows records and tables, not what they mean: `docs/store.md` explains the tables.
//! Acknowledged means durable: a commit has returned only when its records survive a loss of power.

mod check;
mod error;
pub(crate) mod left;
mod lock;
mod log;
mod open;
mod packed;
mod page;
mod purge;
mod reader;
mod replay;
mod schema;
mod sums;
#[cfg(test)]
mod tests;
mod write;

use std::{
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

pub use crate::store::left::arrivals::{Arrivals, Arrived};
pub use crate::store::left::kept::{Kept, check_kept};
pub use check::{Checked, check};
pub use error::{Holder, StoreError};
pub(crate) use lock::FILE as LOCK_FILE;
pub use page::OutputPage;
pub use reader::{AttemptRow, Reader};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use scheduler::{
    engine::{interface::settings::Settings, record::Record},
    ids::JobId,
    policy::Policies,
    results::TaskOutput,
    time::Span,
};

/// The store's file in its folder. SQLite keeps two more beside it while the store is open.
pub const FILE: &str = "store.sqlite";
/// The largest job id, pilot id or task index that can be stored; the end behind it is a number still.
/// A job with more tasks must be refused before it gets here.
pub const INDEX_MAX: u64 = i64::MAX as u64 - 1;

/// The name in `meta` of the policies that the configuration says.
const CONFIGURED: &str = "policies";
/// The name in `meta` of the walltime margin that the configuration says.
const MARGIN: &str = "walltime_margin";
/// The name in `meta` of the place of the store's folder.
const HOME: &str = "home";

/// How long to wait for a lock that some other program has on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The next number in a store that is only read.
const NEVER_WRITES: i64 = i64::MAX;
/// More than there are different statements.
const STATEMENTS_MAX: usize = 32;

/// How many bytes of the store an output takes.
pub(crate) fn packed_len(output: &TaskOutput) -> u64 {
    packed::frames::packed_len(output)
}

/// The store of one manager, open for writing. Dropping it closes the file and frees the folder.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    identity: schema::Identity,
    end: write::End,
    is_broken: bool,
    /// Identities of the opened files, the store and its log: the files at their paths must still be these.
    file_identities: Vec<(PathBuf, Option<(u64, u64)>)>,
    acknowledged: Option<log::Acknowledged>,
    reader: Reader,
    // Last, so that the folder is free only after the file is closed. A reader holds nothing.
    locks: Vec<lock::FolderLock>,
}

/// How a connection opens the store's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    /// For the one writer.
    Write,
    /// Beside a writer.
    Read,
    /// Where nothing can be written, so nothing changes either: not even a file beside it is needed.
    ReadUnchanging,
}

impl Store {
    /// Opens the store in a folder; creates what is missing, for its owner only, and migrates what is older.
    ///
    /// Errors: the folder is in use by another manager, cannot be written, holds something else,
    /// a newer store, a damaged one, or one with several names. Cost: one read of a store up to 256 MiB, to check it.
    pub fn open(folder: &Path) -> Result<Store, StoreError> {
        Store::open_with(folder, schema::MIGRATIONS)
    }

    fn open_with(folder: &Path, migrations: &[schema::Migration]) -> Result<Store, StoreError> {
        check_length(folder)?;
        lock::create_folder(folder)?;
        let mut locks = vec![lock::FolderLock::take(folder)?];
        let path = folder.join(FILE);
        // SQLite would create it with more rights; the files it puts beside it get those of this one.
        let file = lock::open_private(&path, "open")?;
        locks.extend(lock::FolderLock::take_linked(folder, &path)?);
        let n_names = file.metadata().map_or(1, |metadata| metadata.nlink());
        drop(file);
        if n_names > 1 {
            return Err(StoreError::HardLinked { path, n_names });
        }
        let log = log_of(&path);
        check_log(folder, &path, &log)?;
        let mut connection = connect(&path, Access::Write)?;
        let failed = |fault: error::Fault| fault.at(&path, "open");
        let identity = open::prepare(&mut connection, migrations).map_err(failed)?;
        let end = write::end(&connection).map_err(failed)?;
        let acknowledged = acknowledge(folder, &identity, end)?;
        let reader = Reader::new(path.clone(), Access::Read);
        let file_identities = [path.clone(), log].map(|path| (path.clone(), file_identity(&path))).into();
        let (is_broken, acknowledged) = (false, Some(acknowledged));
        Ok(Store { connection, path, identity, end, is_broken, file_identities, acknowledged, reader, locks })
    }

    /// Opens the store in a folder to read it, also where nothing can be written: takes no lock, makes
    /// and changes nothing. What is committed to it is forgotten.
    ///
    /// Errors: there is none, it is of another version, or damaged; or a log beside it holds what was
    /// committed last and cannot be read in a folder that is read-only.
    pub fn open_to_read(folder: &Path) -> Result<Store, StoreError> {
        let path = folder.join(FILE);
        let opened = match read_with(&path, Access::Read) {
            Err(error) if cannot_write(&error) => match has_log(&path) {
                false => read_with(&path, Access::ReadUnchanging)?,
                true => return Err(StoreError::LogNotReadable { path }),
            },
            other => other?,
        };
        Ok(Store::only_read(path, opened))
    }

    /// Returns the result of `read` for the store in a folder. Where no manager runs, SQLite leaves no file beside it, as
    /// it does for [`Store::open_to_read`]. May read twice.
    ///
    /// Errors: as there, and those of `read`.
    pub fn read_once<T>(
        folder: &Path,
        read: impl Fn(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = folder.join(FILE);
        if let Some(before) = at_rest(&path) {
            let opened = read_with(&path, Access::ReadUnchanging);
            let result = opened.and_then(|opened| read(&Store::only_read(path.clone(), opened)));
            // Otherwise a manager has begun, and what was read may be of different moments.
            if at_rest(&path) == Some(before) {
                return result;
            }
        }
        read(&Store::open_to_read(folder)?)
    }

    fn only_read(path: PathBuf, (connection, access, identity): Opened) -> Store {
        let reader = Reader::new(path.clone(), access);
        Store {
            connection,
            path,
            identity,
            end: write::End { next_seq: NEVER_WRITES, chain: 0 },
            is_broken: false,
            file_identities: Vec::new(),
            acknowledged: None,
            reader,
            locks: Vec::new(),
        }
    }

    /// A number drawn when the store was made: the same at every open, different in every store.
    pub fn id(&self) -> u64 {
        self.identity.id
    }

    /// Stores the configured policies and walltime margin, for commands that read the store later.
    ///
    /// Errors: as those of a commit.
    pub fn note_configured(&mut self, settings: &Settings) -> Result<(), StoreError> {
        let text = serde_json::to_string(&settings.policies).unwrap_or_default();
        let written = || {
            let transaction = self.connection.unchecked_transaction()?;
            schema::put(&transaction, CONFIGURED, &text)?;
            schema::put(&transaction, MARGIN, &settings.walltime_margin.0.to_string())?;
            Ok(transaction.commit()?)
        };
        written().map_err(|fault: error::Fault| fault.at(&self.path, "write"))
    }

    /// The policies that the configuration said when the store was last opened by a manager; `None` where that was one
    /// that did not write it down, or knew others.
    ///
    /// Errors: the store cannot be read.
    pub fn configured(&self) -> Result<Option<Policies>, StoreError> {
        let text = schema::get(&self.connection, CONFIGURED).map_err(|fault| fault.at(&self.path, "read"))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// The walltime margin that the configuration said then.
    ///
    /// Errors: the store cannot be read.
    pub fn walltime_margin(&self) -> Result<Option<Span>, StoreError> {
        let text = schema::get(&self.connection, MARGIN).map_err(|fault| fault.at(&self.path, "read"))?;
        Ok(text.and_then(|text| text.parse().ok()).map(Span))
    }

    /// Where the store's folder was when a manager was last started there, in that manager's words; `None`: in none that
    /// wrote it down.
    ///
    /// Errors: the store cannot be read.
    pub fn home(&self) -> Result<Option<String>, StoreError> {
        schema::get(&self.connection, HOME).map_err(|fault| fault.at(&self.path, "read"))
    }

    /// Writes down where the store's folder is. `is_copy`: from now on it is another store than the one that it was
    /// copied from, with an [`Store::id`] of its own.
    ///
    /// Errors: as those of a commit.
    pub fn note_home(&mut self, home: &str, is_copy: bool) -> Result<(), StoreError> {
        let noted = schema::note_home(&mut self.connection, HOME, home, is_copy);
        self.identity.id = noted.map_err(|fault| fault.at(&self.path, "write"))?;
        Ok(())
    }

    /// The number of this life of the store: it is larger with each open, and is not used again even where an
    /// older store is put back in the meantime.
    pub fn epoch(&self) -> u64 {
        self.identity.epoch
    }

    /// Has this life's epoch be larger than `last`, which is the last one that somebody else remembers.
    ///
    /// Errors: as those of a commit.
    pub fn live_after(&mut self, last: u64) -> Result<(), StoreError> {
        if self.identity.epoch <= last {
            let counted = schema::count_epoch(&mut self.connection, last);
            self.identity = counted.map_err(|fault| fault.at(&self.path, "write"))?;
        }
        Ok(())
    }

    /// Hands over all records in the order of their commits. Reports come without columns and
    /// outputs: only task sets, totals and failures.
    ///
    /// Errors: the file cannot be read or contradicts itself. Records before that have been handed over.
    pub fn replay(&self, take: impl FnMut(Record)) -> Result<(), StoreError> {
        replay::replay(&self.connection, take).map_err(|fault| fault.at(&self.path, "replay"))
    }

    /// Makes records durable, all or none, in their order.
    ///
    /// Errors: nothing of them is kept, nothing more is taken, and the process must end. One case
    /// is open: when the disk fails in the very last step, the flush, the next start may find them
    /// kept. So whoever was not answered asks again, and gets the same answer.
    /// Cost: one flush of the disk, however many records.
    pub fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        self.commit_making_room(records, || false)
    }

    /// The same. When the disk is full, it is tried once more if `make_room` says that there is room now.
    ///
    /// Errors: as those of a commit.
    pub fn commit_making_room(
        &mut self,
        records: &[Record],
        make_room: impl FnOnce() -> bool,
    ) -> Result<(), StoreError> {
        if self.is_broken {
            return Err(StoreError::Broken { path: self.path.clone() });
        }
        // A reader's engine may say what it would record; nobody is told that it was kept.
        if records.is_empty() || self.locks.is_empty() {
            return Ok(());
        }
        if let Some((gone, _)) = self.file_identities.iter().find(|(path, held)| file_identity(path) != *held)
        {
            self.is_broken = true;
            return Err(StoreError::Gone { path: gone.clone() });
        }
        let mut commit = || write::commit(&mut self.connection, self.identity.epoch, self.end, records);
        let committed = match commit() {
            Err(fault) if fault.is_full() && make_room() => commit(),
            committed => committed,
        };
        match committed {
            Ok(end) => {
                self.end = end;
                self.note_acknowledged();
                Ok(())
            }
            Err(fault) => {
                self.is_broken = true;
                Err(fault.at(&self.path, "commit records to"))
            }
        }
    }

    /// Names the last record as acknowledged. Without that the store is whole as well.
    fn note_acknowledged(&self) {
        let Some(acknowledged) = &self.acknowledged else { return };
        if let Err(error) = acknowledged.note(self.identity.id, self.end.next_seq - 1) {
            tracing::warn!(%error, path = %self.path.display(), "the last record's number cannot be noted");
        }
    }

    /// Purged jobs of whose tasks something is still there.
    ///
    /// Errors: the file cannot be read. Cost: O(control records).
    pub fn purged_and_left(&self) -> Result<Vec<JobId>, StoreError> {
        let failed = |fault: error::Fault| fault.at(&self.path, "read purged jobs from");
        let mut left = Vec::new();
        // A reader removes nothing.
        if self.locks.is_empty() {
            return Ok(left);
        }
        for job in purge::purged(&self.connection).map_err(failed)? {
            if purge::is_left(&self.connection, job).map_err(failed)? {
                left.push(job);
            }
        }
        Ok(left)
    }

    /// Removes some of what tasks of a purged job have left; says whether anything remains. The file does not shrink: what
    /// is free in it is used again.
    ///
    /// Errors: nothing more was removed. Cost: a flush of the disk, and some 4 MiB.
    pub fn remove_purged(&mut self, job: JobId) -> Result<bool, StoreError> {
        let removed = purge::remove_some(&mut self.connection, self.identity.epoch, job);
        removed.map_err(|fault| fault.at(&self.path, "remove purged jobs from"))
    }

    /// How many bytes of output are kept of each job that has some.
    ///
    /// Errors: the file cannot be read. Cost: O(rows of outputs).
    pub fn all_output_bytes(&self) -> Result<Vec<(JobId, u64)>, StoreError> {
        page::all_output_bytes(&self.connection).map_err(|fault| fault.at(&self.path, "read outputs from"))
    }

    /// How many bytes of output are kept of a job.
    ///
    /// Errors: the file cannot be read. Cost: O(rows of outputs of the job).
    pub fn output_bytes(&self, job: JobId) -> Result<u64, StoreError> {
        page::output_bytes(&self.connection, job).map_err(|fault| fault.at(&self.path, "read outputs from"))
    }

    /// Reads beside the writer what was committed.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }
}

impl Drop for Store {
    /// SQLite brings the log home when the last connection is closed, and only the writer can: with
    /// a reader's still open, the file would be left without what was committed last.
    fn drop(&mut self) {
        self.reader.close_idle();
    }
}

/// Refuses a log from which SQLite would leave out what was acknowledged.
fn check_log(folder: &Path, path: &Path, log: &Path) -> Result<(), StoreError> {
    let damaged = |what| StoreError::Damaged { path: log.to_owned(), doing: "open", what };
    match look_at(log)? {
        log::Log::Whole => return Ok(()),
        log::Log::Damaged(what) => return Err(damaged(what)),
        log::Log::HasRest => {}
    }
    let connection = connect(path, Access::Write)?;
    // A refused store stays as it is.
    let failed = |fault: error::Fault| fault.at(path, "open");
    let kept = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    kept.map_err(|error| failed(error.into()))?;
    if !schema::is_made(&connection).map_err(failed)? {
        return Ok(());
    }
    let id = schema::take(&connection, "id").map_err(failed)?;
    let end = write::end(&connection).map_err(failed)?;
    let (_, named) = open_acknowledged(folder, id)?;
    match named.filter(|named| *named >= end.next_seq) {
        Some(named) => Err(damaged(format!(
            "its last commit is damaged: records {} to {named} were acknowledged and cannot be read",
            end.next_seq
        ))),
        None => Ok(()),
    }
}

fn look_at(log: &Path) -> Result<log::Log, StoreError> {
    log::look(log).map_err(|source| StoreError::Folder { path: log.to_owned(), doing: "read", source })
}

fn open_acknowledged(folder: &Path, store: u64) -> Result<(log::Acknowledged, Option<i64>), StoreError> {
    let failed =
        |source| StoreError::Folder { path: folder.to_owned(), doing: "note the last record in", source };
    log::Acknowledged::open(folder, store).map_err(failed)
}

/// Goes on from the last record, and says in the log when more were acknowledged than are here.
fn acknowledge(
    folder: &Path,
    identity: &schema::Identity,
    end: write::End,
) -> Result<log::Acknowledged, StoreError> {
    let (acknowledged, named) = open_acknowledged(folder, identity.id)?;
    let last = end.next_seq - 1;
    if let Some(named) = named.filter(|named| *named > last) {
        tracing::warn!(
            path = %folder.display(), last, acknowledged = named,
            "the store lacks records that were acknowledged: an older one was put back, or its log was removed"
        );
    }
    // The number that each commit notes is noted here as well, so that it is of this store from now on.
    let noted = acknowledged.note(identity.id, last);
    noted.map_err(|source| StoreError::Folder {
        path: folder.to_owned(),
        doing: "note the last record in",
        source,
    })?;
    Ok(acknowledged)
}

/// Device and inode of a file; `None` when it is not there.
fn file_identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Bytes of a path that SQLite takes: its `MAX_PATHNAME`, without what the name of a journal has more.
const PATH_BYTES_MAX: usize = 512 - "-journal".len();

/// The path without links, as far as it is there.
pub fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let resolved = absolute.ancestors().find_map(|folder| {
        let rest = absolute.strip_prefix(folder).ok()?;
        // Joined to nothing it would end with a slash.
        folder.canonicalize().ok().map(|folder| folder.join(rest).components().collect())
    });
    resolved.unwrap_or(absolute)
}

/// Whether SQLite takes the path of a store in this folder, which need not be there yet.
///
/// Errors: it is too long.
pub fn check_length(folder: &Path) -> Result<(), StoreError> {
    check_path_length(&folder.join(FILE))
}

fn check_path_length(path: &Path) -> Result<(), StoreError> {
    let path = resolved(path);
    match path.as_os_str().len() > PATH_BYTES_MAX {
        true => Err(StoreError::PathTooLong { path, doing: "open", bytes_max: PATH_BYTES_MAX }),
        false => Ok(()),
    }
}

fn connect(path: &Path, access: Access) -> Result<Connection, StoreError> {
    check_path_length(path)?;
    let failed = |source| error::Fault::Sqlite(source).at(path, "open");
    // Each connection is used by one thread at a time.
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | match access {
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Access::ReadUnchanging => OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
        };
    let connection = match access {
        Access::Write | Access::Read => Connection::open_with_flags(path, flags),
        Access::ReadUnchanging => Connection::open_with_flags(unchanging_uri(path), flags),
    };
    let connection = connection.map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// A store that was opened without writing.
type Opened = (Connection, Access, schema::Identity);

/// Opens and checks a store without writing.
fn read_with(path: &Path, access: Access) -> Result<Opened, StoreError> {
    let connection = connect(path, access)?;
    let identity = open::identify(&connection, schema::MIGRATIONS).map_err(|fault| fault.at(path, "open"))?;
    Ok((connection, access, identity))
}

/// Whether an error may come from files that SQLite wants to make beside the store even to read it.
fn cannot_write(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::ReadOnly { .. }
            | StoreError::DiskFull { .. }
            | StoreError::FileSize { .. }
            | StoreError::Io { .. }
            | StoreError::Sqlite { .. }
    )
}

/// Whether SQLite has left something beside the file that belongs to it.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(log_of(path)).is_ok_and(|log| log.len() > 0)
}

/// Where SQLite writes what it brings home later: beside the file itself, wherever links lead. It is there for as
/// long as a manager runs.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.canonicalize().unwrap_or_else(|_| path.to_owned()).into_os_string();
    log.push("-wal");
    log.into()
}

/// Identity, size and time of change of a store that nobody uses; `None` where somebody may use it.
fn at_rest(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let metadata = std::fs::metadata(path).ok().filter(|_| !log_of(path).exists())?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// The file as a URI that tells SQLite that nobody changes it. Everything but letters and digits is escaped.
fn unchanging_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri + "?immutable=1"
}
