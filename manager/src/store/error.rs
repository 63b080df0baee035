//! Errors of the store: each names the file and the reason.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use protocol::text::ulimits::Limit;
use rusqlite::{Error as SqliteError, ErrorCode};

/// Why the store cannot be opened, read or written. Each names the file or folder it happened to.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another manager works on this folder.
    #[error(
        "cannot open the store in {}: another manager uses it ({holder}); stop that one or choose another folder",
        folder.display()
    )]
    InUse {
        /// The store's folder.
        folder: PathBuf,
        /// The process that holds its lock.
        holder: Holder,
    },
    /// The folder, its lock or the store's file cannot be created or opened.
    #[error("cannot {doing} {}: {source}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file is something else.
    #[error("cannot {doing} {}: it is not a Pilotfish store ({why})", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
        /// By what it shows.
        why: &'static str,
    },
    /// A newer version has written it.
    #[error(
        "cannot open {}: its format has version {found}, this program knows versions up to {known}; \
         use the Pilotfish that wrote it, or a newer one",
        path.display()
    )]
    TooNew {
        /// The store's file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest known version.
        known: i64,
    },
    /// An older version has written it, or begun to; only a manager brings it up to date.
    #[error("cannot open {}: its format has version {found}; start a manager in its folder once", path.display())]
    TooOld {
        /// The store's file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// The manager did not end in good order, and the folder is read-only.
    #[error(
        "cannot open {}: what was written last is in a log beside it that only a writable folder can read; copy the folder",
        path.display()
    )]
    LogNotReadable {
        /// The store's file.
        path: PathBuf,
    },
    /// Its contents contradict themselves.
    #[error("cannot {doing} {}: the store is damaged: {what}; restore it from a backup", path.display())]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
        /// The damage and its place.
        what: String,
    },
    /// Its path has more bytes than SQLite takes.
    #[error(
        "cannot {doing} {}: the path of the store is too long: {} bytes, and SQLite takes {bytes_max}; choose another folder \
         with --dir",
        path.display(), path.as_os_str().len()
    )]
    PathTooLong {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
        /// How many bytes it may have.
        bytes_max: usize,
    },
    /// No space is left.
    #[error("cannot {doing} {}: the disk is full or the quota is used up; make room and start again", path.display())]
    DiskFull {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
    },
    /// The system lets this process write no larger files.
    #[error(
        "cannot {doing} {}: a file of the store would become larger than this process may write, {bytes_max} bytes (ulimit -f); \
         raise that limit and start again: what was acknowledged is there",
        path.display()
    )]
    FileSize {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
        /// How large a file may be.
        bytes_max: u64,
    },
    /// It may not be written.
    #[error("cannot {doing} {}: the file or its folder is read-only; make both writable", path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
    },
    /// Another program keeps it locked.
    #[error(
        "cannot {doing} {}: another program has kept the file locked for {} s; end it",
        path.display(),
        super::BUSY_TIMEOUT.as_secs()
    )]
    Busy {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
    },
    /// The disk or its driver failed.
    #[error("cannot {doing} {}: the disk failed: {source}", path.display())]
    Io {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
        /// SQLite's error.
        source: SqliteError,
    },
    /// The file system has no shared memory for files, as some network file systems.
    #[error(
        "cannot open {}: its file system cannot hold a store (no write-ahead log); choose a folder on a local disk",
        path.display()
    )]
    Filesystem {
        /// The store's file.
        path: PathBuf,
    },
    /// Anything else that SQLite refuses.
    #[error("cannot {doing} {}: {source}", path.display())]
    Sqlite {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
        /// SQLite's error.
        source: SqliteError,
    },
    /// A number is beyond what the store can order.
    #[error("cannot {doing} {}: {what} is {value}, the largest possible is {}", path.display(), super::INDEX_MAX)]
    TooLarge {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
        /// The kind of number.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// A record has no JSON form.
    #[error("cannot {doing} {}: a record cannot be written as JSON: {source}", path.display())]
    Encode {
        /// The store's file.
        path: PathBuf,
        /// The attempted operation: a verb.
        doing: &'static str,
        /// The encoder's error.
        source: serde_json::Error,
    },
    /// Somebody removed the file, or put another in its place: what is written goes nowhere.
    #[error("cannot commit records to {}: the file was removed or replaced while the manager ran", path.display())]
    Gone {
        /// The store's file.
        path: PathBuf,
    },
    /// Another manager has opened it since, past the locks: who opened it last goes on.
    #[error(
        "cannot commit records to {}: another manager has opened the store since, and works with it; this one ends",
        path.display()
    )]
    TakenOver {
        /// The store's file.
        path: PathBuf,
    },
    /// By another name its log would be another one, too.
    #[error(
        "cannot open {}: the file has {n_names} names (hard links), and a manager that works with it by another one would \
         not be noticed; put a copy of the file in its place",
        path.display()
    )]
    HardLinked {
        /// The store's file.
        path: PathBuf,
        /// How many names it has.
        n_names: u64,
    },
    /// An earlier commit failed; what is in memory is not what is on disk.
    #[error("cannot commit records to {}: an earlier commit failed, so nothing more is taken; start again", path.display())]
    Broken {
        /// The store's file.
        path: PathBuf,
    },
}

/// The process that holds a folder's lock, as far as the lock file tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holder {
    /// The process.
    pub pid: Option<u32>,
    /// The host it runs on.
    pub host: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.host) {
            (Some(pid), Some(host)) => write!(f, "process {pid} on host {host}"),
            (Some(pid), None) => write!(f, "process {pid}"),
            (None, Some(host)) => write!(f, "on host {host}"),
            (None, None) => write!(f, "it has not said which"),
        }
    }
}

/// An error of a layer that does not know the file's name.
#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(SqliteError),
    Damaged(String),
    NotAStore(&'static str),
    TooNew { found: i64, known: i64 },
    TooOld { found: i64 },
    NoWal,
    TakenOver,
    TooLarge { what: &'static str, value: u64 },
    Encode(serde_json::Error),
}

impl From<SqliteError> for Fault {
    fn from(error: SqliteError) -> Fault {
        Fault::Sqlite(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Fault {
        Fault::Encode(error)
    }
}

impl Fault {
    /// Says which file it happened to, and during what.
    pub(super) fn at(self, path: &Path, doing: &'static str) -> StoreError {
        let path = path.to_path_buf();
        match self {
            Fault::Sqlite(source) => sqlite_error(path, doing, source),
            Fault::Damaged(what) => StoreError::Damaged { path, doing, what },
            Fault::NotAStore(why) => StoreError::NotAStore { path, doing, why },
            Fault::TooNew { found, known } => StoreError::TooNew { path, found, known },
            Fault::TooOld { found } => StoreError::TooOld { path, found },
            Fault::NoWal => StoreError::Filesystem { path },
            Fault::TakenOver => StoreError::TakenOver { path },
            Fault::TooLarge { what, value } => StoreError::TooLarge { path, doing, what, value },
            Fault::Encode(source) => StoreError::Encode { path, doing, source },
        }
    }
}

impl Fault {
    /// Whether there was no room on the disk. Nothing is kept then of what was to be written.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
    }
}

/// SQLite grows its files by so much at most between two looks.
const GROWTH_BYTES: u64 = 128 << 10;

/// Whether one of the store's files has grown to the limit of the size of files. SQLite does not say why a write fails.
fn is_at_limit(path: &Path, bytes_max: u64) -> bool {
    ["", "-wal", "-shm", "-journal"].iter().any(|end| {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        std::fs::metadata(file).is_ok_and(|file| file.len().saturating_add(GROWTH_BYTES) >= bytes_max)
    })
}

fn sqlite_error(path: PathBuf, doing: &'static str, source: SqliteError) -> StoreError {
    let Some(code) = source.sqlite_error_code() else {
        // Not SQLite but a value in it: another type or range than our tables have.
        return StoreError::Damaged { path, doing, what: source.to_string() };
    };
    match code {
        ErrorCode::DiskFull => StoreError::DiskFull { path, doing },
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { path, doing },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy { path, doing },
        ErrorCode::DatabaseCorrupt => StoreError::Damaged { path, doing, what: source.to_string() },
        ErrorCode::NotADatabase => StoreError::NotAStore { path, doing, why: "no SQLite file" },
        ErrorCode::SystemIoFailure => match Limit::FileSize.soft() {
            Some(bytes_max) if is_at_limit(&path, bytes_max) => {
                StoreError::FileSize { path, doing, bytes_max }
            }
            _ => StoreError::Io { path, doing, source },
        },
        _ => StoreError::Sqlite { path, doing, source },
    }
}
