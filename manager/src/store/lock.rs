//! One manager a folder: an advisory lock that the kernel takes back when the process ends, however it ends.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    unistd::Uid,
};
use protocol::files::private;

use super::{
    FILE as STORE,
    error::{Holder, StoreError},
    file_identity,
};

/// The lock file's name in the store's folder.
pub(crate) const FILE: &str = "lock";
/// Names that a manager's folder may have before its first start: an operator's configuration, and files that managers and pilots
/// leave there.
const OF_MANAGERS: [&str; 12] = [
    "manager.yaml",
    ".gitignore",
    "access.json",
    "files",
    "reserve",
    "acknowledged",
    "secret",
    "revoked",
    "numbers",
    "port",
    "doors",
    "pilots",
];
/// Endings of files that operators keep in a manager's folder: logs of `serve`, configurations, certificates.
const BESIDE: [&str; 10] = ["log", "out", "err", "pid", "yaml", "yml", "json", "pem", "crt", "key"];
/// No lock file is longer: two short lines.
const LOCK_BYTES_MAX: u64 = 1024;

/// The right to work on a folder, for as long as it lives.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: Flock<File>,
}

impl FolderLock {
    /// Takes the folder, or says who has it.
    pub(super) fn take(folder: &Path) -> Result<FolderLock, StoreError> {
        FolderLock::take_file(folder, &folder.join(FILE))
    }

    /// The same of a store's file that is a link to one elsewhere, which may be in a manager's folder or be
    /// linked from several. `None` where it is none, or where the folder's lock is a link to that lock.
    pub(super) fn take_linked(own: &Path, store: &Path) -> Result<Option<FolderLock>, StoreError> {
        if !store.is_symlink() {
            return Ok(None);
        }
        let real = store.canonicalize().map_err(|source| folder_error(store, "follow the link", source))?;
        let folder = real.parent().unwrap_or(Path::new("/"));
        let lock =
            if real.ends_with(super::FILE) { folder.join(FILE) } else { real.with_added_extension("lock") };
        if file_identity(&lock).is_some_and(|lock| Some(lock) == file_identity(&own.join(FILE))) {
            return Ok(None);
        }
        FolderLock::take_file(folder, &lock).map(Some)
    }

    fn take_file(folder: &Path, path: &Path) -> Result<FolderLock, StoreError> {
        let file = open_private(path, "open the lock file")?;
        let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((file, Errno::EWOULDBLOCK)) => {
                return Err(StoreError::InUse { folder: folder.to_path_buf(), holder: read_holder(file) });
            }
            Err((_, errno)) => return Err(folder_error(path, "lock", errno.into())),
        };
        write_holder(&mut file).map_err(|source| folder_error(path, "write to the lock file", source))?;
        Ok(FolderLock { _file: file })
    }
}

/// Whether no manager holds the folder. Changes nothing.
pub(super) fn is_free(folder: &Path) -> bool {
    match File::open(folder.join(FILE)) {
        Ok(file) => Flock::lock(file, FlockArg::LockSharedNonblock).is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Creates the folder when it is missing, for its owner only, and makes its name durable. One that is there must be this
/// user's, and nobody else may have put something there.
pub(super) fn create_folder(folder: &Path) -> Result<(), StoreError> {
    let failed = |source| folder_error(folder, "create the folder", source);
    if folder.is_dir() {
        let refused = |source| folder_error(folder, "use the folder", source);
        refuse_folder_of_other_things(folder).map_err(refused)?;
        return private::take_folder(folder, Uid::effective().as_raw()).map_err(refused);
    }
    if folder.exists() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    private::take_folder(folder, Uid::effective().as_raw()).map_err(failed)?;
    let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)
}

/// Refuses a folder that others may enter and that holds other files than a manager's: they would lose access to it.
fn refuse_folder_of_other_things(folder: &Path) -> io::Result<()> {
    let is_open = fs::metadata(folder)?.permissions().mode() & 0o077 != 0;
    let is_managers = [FILE, STORE].iter().any(|name| folder.join(name).symlink_metadata().is_ok());
    if !is_open || is_managers {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let kind = Path::new(&name).extension();
        let is_beside = kind.is_some_and(|kind| BESIDE.iter().any(|known| kind == *known));
        if !is_beside && !OF_MANAGERS.iter().any(|known| name == *known) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "it has other things in it ({}), and a manager's folder is closed to others; name a folder of its own, \
                     such as {}",
                    name.to_string_lossy(),
                    folder.join(".pilotfish").display()
                ),
            ));
        }
    }
    Ok(())
}

/// Opens a file to read and write, created for its owner only when it is missing.
pub(super) fn open_private(path: &Path, doing: &'static str) -> Result<File, StoreError> {
    private::file_options()
        .read(true)
        .write(true)
        .truncate(false)
        .open(path)
        .map_err(|source| folder_error(path, doing, source))
}

fn folder_error(path: &Path, doing: &'static str, source: io::Error) -> StoreError {
    StoreError::Folder { path: PathBuf::from(path), doing, source }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    let host = nix::unistd::gethostname()?;
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "pid {}\nhost {}\n", std::process::id(), host.to_string_lossy())
}

/// Reads from the lock file who holds the lock. A holder that has only just taken the lock may not have written yet.
fn read_holder(file: File) -> Holder {
    let mut text = String::new();
    if file.take(LOCK_BYTES_MAX).read_to_string(&mut text).is_err() {
        return Holder::default();
    }
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Holder { pid: value("pid ").and_then(|pid| pid.parse().ok()), host: value("host ").map(str::to_owned) }
}
