//! Files by their contents, in the manager's folder: what submitters bring, and what tasks leave.
//!
//! An object is there whole or not at all: it is written beside, hashed on the way, and gets its name once it
//! is on the disk. Whatever a manager that was killed has left beside is removed by the next one. Nothing here
//! knows of jobs; `collect` is told what is in use.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use ring::digest::{Context, SHA256};
use scheduler::digest::Digest;

/// So much of the disk is left to the store of jobs, whatever is brought.
const RESERVED_BYTES: u64 = 64 << 20;
/// What nobody uses stays for so long: a job that names it may be on its way, or tried once more.
pub const UNUSED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Why an object was not taken, or is not there.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The disk has no room.
    #[error(
        "the manager's disk is full: {free} bytes are free there, and {} stay for its own store",
        RESERVED_BYTES
    )]
    DiskFull {
        /// What is left of it.
        free: u64,
    },
    /// What came is something else.
    #[error("found contents of SHA-256 {found} where {wanted} was announced; send the file again")]
    Mismatch {
        /// What it hashes to.
        found: Digest,
        /// What it should.
        wanted: Digest,
    },
    /// It is not there.
    #[error("there is no object {0}: it was never brought, or nobody has used it for a week")]
    None(Digest),
    /// The file system.
    #[error("failed to {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What happened.
        #[source]
        source: io::Error,
    },
}

/// The store. Cheap to clone; all of it blocks.
#[derive(Clone, Debug)]
pub struct Objects {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    objects: PathBuf,
    incoming: PathBuf,
    n_ever: AtomicU64,
    n_bytes_in: AtomicU64,
    n_bytes_out: AtomicU64,
}

/// An object on its way in. Dropped before its end, nothing of it is left.
pub struct Incoming {
    store: Objects,
    path: PathBuf,
    file: File,
    hash: Context,
    n_bytes: u64,
}

impl Objects {
    /// The store in a manager's folder. Nothing is made before something is brought.
    pub fn in_folder(folder: &Path) -> Objects {
        let root = folder.join("files");
        let shared = Shared {
            objects: root.join("objects"),
            incoming: root.join("incoming"),
            n_ever: AtomicU64::new(0),
            n_bytes_in: AtomicU64::new(0),
            n_bytes_out: AtomicU64::new(0),
        };
        Objects { shared: Arc::new(shared) }
    }

    /// Removes what a manager of before has not finished.
    pub fn clean(&self) {
        for entry in fs::read_dir(&self.shared.incoming).into_iter().flatten().flatten() {
            // What stays is in nobody's way but its own bytes'.
            let _ = fs::remove_file(entry.path());
        }
    }

    fn path_of(&self, sha256: &Digest) -> PathBuf {
        let name = sha256.to_string();
        self.shared.objects.join(&name[..2]).join(name)
    }

    /// The size of an object, if it is there. It stays for [`UNUSED_KEPT`] from now on at least.
    pub fn size(&self, sha256: &Digest) -> Option<u64> {
        let file = File::open(self.path_of(sha256)).ok()?;
        // Who cannot mark it may at least read it.
        let _ = file.set_modified(SystemTime::now());
        file.metadata().ok().map(|facts| facts.len())
    }

    /// An object to read, and its size.
    ///
    /// # Errors
    /// It is not there, or cannot be opened.
    pub fn open(&self, sha256: &Digest) -> Result<(File, u64), ObjectError> {
        let path = self.path_of(sha256);
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((n_bytes, file)) => {
                // As above.
                let _ = file.set_modified(SystemTime::now());
                self.shared.n_bytes_out.fetch_add(n_bytes, Ordering::Relaxed);
                Ok((file, n_bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ObjectError::None(*sha256)),
            Err(source) => Err(ObjectError::Io { doing: "open", path, source }),
        }
    }

    /// Begins to take an object in of which so many bytes are announced.
    ///
    /// # Errors
    /// There is no room for them, or no file can be made.
    pub fn begin(&self, n_announced: u64) -> Result<Incoming, ObjectError> {
        let folder = &self.shared.incoming;
        make_folder(folder)?;
        let free = free_bytes(folder);
        if free < n_announced.saturating_add(RESERVED_BYTES) {
            return Err(ObjectError::DiskFull { free });
        }
        let number = self.shared.n_ever.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}", std::process::id()));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = file.map_err(|source| failed("make", &path, source))?;
        Ok(Incoming { store: self.clone(), path, file, hash: Context::new(&SHA256), n_bytes: 0 })
    }

    /// Bytes that came and went since the start.
    pub fn n_moved(&self) -> (u64, u64) {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        (read(&self.shared.n_bytes_in), read(&self.shared.n_bytes_out))
    }

    /// Removes objects that are not in use and that nobody has asked for since `before`. Says how many, and
    /// how many bytes they had. What comes or is asked for meanwhile stays.
    pub fn collect(&self, in_use: &BTreeSet<Digest>, before: SystemTime) -> (u64, u64) {
        let (mut n_removed, mut n_bytes) = (0, 0);
        let folders = fs::read_dir(&self.shared.objects).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
        for entry in files {
            let sha256 = entry.file_name().to_str().and_then(|name| name.parse::<Digest>().ok());
            let Some(sha256) = sha256.filter(|sha256| !in_use.contains(sha256)) else { continue };
            let Ok(facts) = entry.metadata() else { continue };
            let is_old = facts.modified().is_ok_and(|at| at < before);
            if is_old && fs::remove_file(self.path_of(&sha256)).is_ok() {
                n_removed += 1;
                n_bytes += facts.len();
            }
        }
        (n_removed, n_bytes)
    }
}

impl Incoming {
    /// Takes some more.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ObjectError> {
        self.file.write_all(bytes).map_err(|source| failed("write", &self.path, source))?;
        self.hash.update(bytes);
        self.n_bytes += bytes.len() as u64;
        Ok(())
    }

    /// That was all: it is there from now on, whatever happens to this process or machine. Says its size.
    ///
    /// # Errors
    /// It is not what was announced, or the disk fails; then nothing of it is left.
    pub fn finish(self, wanted: &Digest) -> Result<u64, ObjectError> {
        let mut found = Digest::default();
        found.0.copy_from_slice(self.hash.clone().finish().as_ref());
        if found != *wanted {
            return Err(ObjectError::Mismatch { found, wanted: *wanted });
        }
        self.file.sync_all().map_err(|source| failed("flush", &self.path, source))?;
        let path = self.store.path_of(wanted);
        let folder = path.parent().unwrap_or(&path);
        make_folder(folder)?;
        fs::rename(&self.path, &path).map_err(|source| failed("name", &path, source))?;
        let flushed = File::open(folder).and_then(|folder| folder.sync_all());
        flushed.map_err(|source| failed("flush", folder, source))?;
        self.store.shared.n_bytes_in.fetch_add(self.n_bytes, Ordering::Relaxed);
        Ok(self.n_bytes)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // It has another name if it is whole.
        let _ = fs::remove_file(&self.path);
    }
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> ObjectError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ObjectError::DiskFull { free: free_bytes(path.parent().unwrap_or(path)) }
        }
        _ => ObjectError::Io { doing, path: path.to_owned(), source },
    }
}

/// A folder for its owner only, and those above it; durable, as a name in it is to be.
fn make_folder(path: &Path) -> Result<(), ObjectError> {
    if path.is_dir() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| failed("make", path, source))?;
    for above in path.ancestors().skip(1).take(2) {
        // A folder that cannot be flushed cannot be on the disk of the store either, which says so.
        let _ = File::open(above).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

/// What the disk has left for us; everything, if it does not say.
fn free_bytes(path: &Path) -> u64 {
    nix::sys::statvfs::statvfs(path).map_or(u64::MAX, |facts| {
        let (blocks, bytes) = (facts.blocks_available(), facts.fragment_size());
        blocks.saturating_mul(bytes)
    })
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        time::{Duration, SystemTime},
    };

    use ring::digest::{SHA256, digest};
    use scheduler::digest::Digest;

    use super::{ObjectError, Objects};

    fn digest_of(bytes: &[u8]) -> Digest {
        let mut found = Digest::default();
        found.0.copy_from_slice(digest(&SHA256, bytes).as_ref());
        found
    }

    fn bring(store: &Objects, bytes: &[u8], wanted: &Digest) -> Result<u64, ObjectError> {
        let mut incoming = store.begin(bytes.len() as u64)?;
        bytes.chunks(3).try_for_each(|chunk| incoming.write(chunk))?;
        incoming.finish(wanted)
    }

    #[test]
    fn an_object_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = Objects::in_folder(folder.path());
        let sha256 = digest_of(b"molecules");
        let mut torn = store.begin(9).unwrap();
        torn.write(b"mole").unwrap();
        assert_eq!(store.size(&sha256), None);
        drop(torn);
        assert!(matches!(bring(&store, b"molecule!", &sha256), Err(ObjectError::Mismatch { .. })));
        assert_eq!(store.size(&sha256), None);
        assert_eq!(fs::read_dir(folder.path().join("files/incoming")).unwrap().count(), 0);
        for _ in 0..2 {
            assert_eq!(bring(&store, b"molecules", &sha256).unwrap(), 9);
            assert_eq!(store.size(&sha256), Some(9));
        }
    }

    #[test]
    fn what_a_killed_manager_left_half_is_removed_and_what_was_whole_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Objects::in_folder(folder.path());
        let sha256 = digest_of(b"whole");
        bring(&store, b"whole", &sha256).unwrap();
        let mut torn = store.begin(9).unwrap();
        torn.write(b"half").unwrap();
        std::mem::forget(torn);
        let next = Objects::in_folder(folder.path());
        next.clean();
        assert_eq!(fs::read_dir(folder.path().join("files/incoming")).unwrap().count(), 0);
        assert_eq!(next.size(&sha256), Some(5));
    }

    #[test]
    fn only_what_is_old_and_not_in_use_is_collected() {
        let folder = tempfile::tempdir().unwrap();
        let store = Objects::in_folder(folder.path());
        let (used, old) = (digest_of(b"used"), digest_of(b"old"));
        bring(&store, b"used", &used).unwrap();
        bring(&store, b"old", &old).unwrap();
        let in_use = BTreeSet::from([used]);
        let now = SystemTime::now();
        assert_eq!(store.collect(&in_use, now - Duration::from_secs(60)), (0, 0));
        assert_eq!(store.collect(&in_use, now + Duration::from_secs(60)), (1, 3));
        assert_eq!((store.size(&used), store.size(&old)), (Some(4), None));
    }

    #[test]
    fn more_than_the_disk_has_is_refused_before_it_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let store = Objects::in_folder(folder.path());
        assert!(matches!(store.begin(u64::MAX), Err(ObjectError::DiskFull { .. })));
    }
}
