//! Files by their contents, in the manager's folder: what submitters bring, and what tasks leave.
//!
//! An object is there whole or not at all: it is written beside, hashed on the way, and gets its name once it
//! is on the disk. Whatever a manager that was killed has left beside is removed by the next one. What turns out
//! to be rotten while it is read loses its name, so that it is brought anew. Nothing here knows of jobs;
//! `collect` is told what is in use.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use crate::files::objects::flusher::Flusher;
use crate::files::objects::owners::Owners;
use protocol::files::pack::{self, CONTENTS_BYTES_MAX, PACKED_BYTES_MAX};
use ring::digest::{Context, SHA256};
use scheduler::digest::Digest;

mod flusher;
pub(crate) mod owners;

/// So much of the disk is left to the store of jobs, whatever is brought.
const RESERVED_BYTES: u64 = 64 << 20;
/// What nobody uses stays for so long: a job that names it may be on its way, or tried once more.
pub const UNUSED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The use of an object is noted once in this time, as each note is a write.
const USE_NOTED_AFTER: Duration = Duration::from_secs(if cfg!(test) { 30 } else { 600 });
/// So much of an object is read at a time.
const PIECE_BYTES: usize = 128 << 10;
/// Objects whose use is asked for at a time: some 20 MB, however many there are.
const N_ASKED: usize = if cfg!(test) { 2 } else { 1 << 18 };

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
    #[error(
        "there is no object {0}: it was never brought, nobody has used it for a week, or it was found rotten"
    )]
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
    /// What was set aside, for who looks into it.
    rotten: PathBuf,
    /// Held while an object gets its name or loses it: no good one loses it for what was there before.
    naming: Mutex<()>,
    flusher: Flusher,
    owners: Owners,
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

/// An object on its way out, checked as it is read. One that is not read from its beginning to its end is not judged.
pub struct Outgoing {
    store: Objects,
    sha256: Digest,
    file: File,
    /// `None`: it is not read from its beginning.
    hash: Option<Context>,
    n_bytes: u64,
    n_left: u64,
}

impl Objects {
    /// The store in a manager's folder. Nothing is made before something is brought.
    pub fn in_folder(folder: &Path) -> Objects {
        let root = folder.join("files");
        let shared = Shared {
            objects: root.join("objects"),
            incoming: root.join("incoming"),
            rotten: root.join("rotten"),
            naming: Mutex::default(),
            flusher: Flusher::default(),
            owners: Owners::in_folder(root.join("owners")),
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
            let _ = fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()));
        }
    }

    /// Whose the objects are.
    pub(crate) fn owners(&self) -> &Owners {
        &self.shared.owners
    }

    fn path_of(&self, sha256: &Digest) -> PathBuf {
        let name = sha256.to_string();
        self.shared.objects.join(&name[..2]).join(name)
    }

    /// The size of an object, if it is there. It stays for [`UNUSED_KEPT`] from now on at least.
    pub fn size(&self, sha256: &Digest) -> Option<u64> {
        let file = File::open(self.path_of(sha256)).ok()?;
        let facts = file.metadata().ok()?;
        note_use(&file, &facts);
        Some(facts.len())
    }

    /// The same of an object that should have `wanted` bytes. If it has not, all of it is read, so that one that
    /// is rotten is found out.
    pub fn size_as(&self, sha256: &Digest, wanted: u64) -> Option<u64> {
        let found = self.size(sha256)?;
        if found == wanted {
            return Some(found);
        }
        let mut object = self.open(sha256).ok()?;
        // Who cannot read it cannot judge it either.
        while object.read().is_ok_and(|piece| !piece.is_empty()) {}
        self.size(sha256)
    }

    /// An object to read.
    ///
    /// # Errors
    /// It is not there, or cannot be opened.
    pub fn open(&self, sha256: &Digest) -> Result<Outgoing, ObjectError> {
        let path = self.path_of(sha256);
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
        let (facts, file) = opened.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ObjectError::None(*sha256),
            _ => ObjectError::Io { doing: "open", path, source },
        })?;
        note_use(&file, &facts);
        let n_bytes = facts.len();
        let (store, hash) = (self.clone(), Some(Context::new(&SHA256)));
        let object = Outgoing { store, sha256: *sha256, file, hash, n_bytes, n_left: n_bytes };
        // Of one without anything in it nobody reads a piece.
        match n_bytes == 0 && !object.check() {
            true => Err(ObjectError::None(*sha256)),
            false => Ok(object),
        }
    }

    /// Takes its name from an object that was read and is something else: it counts as not there.
    fn set_aside(&self, sha256: &Digest, read: &File) {
        let path = self.path_of(sha256);
        let aside = self.shared.rotten.join(sha256.to_string());
        let naming = self.shared.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let is_that = |named: fs::Metadata| {
            read.metadata().is_ok_and(|facts| (facts.dev(), facts.ino()) == (named.dev(), named.ino()))
        };
        // Somebody else may have found it out too, and it may have been brought anew since.
        if !fs::metadata(&path).is_ok_and(is_that) {
            return;
        }
        let moved = make_folder(&self.shared.rotten)
            .and_then(|()| fs::rename(&path, &aside).map_err(|source| failed("set aside", &path, source)));
        drop(naming);
        match moved {
            Ok(()) => tracing::error!(
                %sha256,
                aside = %aside.display(),
                "an object is rotten and was set aside; look after the disk"
            ),
            Err(error) => tracing::error!(%sha256, %error, "an object is rotten and could not be set aside"),
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

    /// Takes in small files that came in a pack. They are there from now on, whatever happens to this process or machine.
    /// Gives those that were not there before.
    ///
    /// # Errors
    /// One is not what was announced, and none is taken in; or the disk is full or fails, and some may be there.
    /// Cost: two flushes of the file system, however many there are. Packs that come at the same time share them.
    pub fn take_in_pack(&self, files: &[(Digest, &[u8])]) -> Result<Vec<(Digest, u64)>, ObjectError> {
        let incoming = &self.shared.incoming;
        make_folder(incoming)?;
        let n_bytes: u64 = files.iter().map(|(_, contents)| contents.len() as u64).sum();
        let free = free_bytes(incoming);
        if free < n_bytes.saturating_add(RESERVED_BYTES) {
            return Err(ObjectError::DiskFull { free });
        }
        let number = self.shared.n_ever.fetch_add(1, Ordering::Relaxed);
        // A folder of its own: packs that arrive together would wait for each other in one.
        let folder = PackFolder(incoming.join(format!("{}-{number}", std::process::id())));
        let (mut parts, mut new) = (Vec::with_capacity(files.len()), Vec::new());
        for (sha256, contents) in files {
            let mut hash = Context::new(&SHA256);
            hash.update(contents);
            let found = digest_of(&hash);
            if found != *sha256 {
                return Err(ObjectError::Mismatch { found, wanted: *sha256 });
            }
            // What is there already is the same; one that has become shorter is brought anew. Most are not there.
            let is_there = fs::metadata(self.path_of(sha256)).is_ok();
            if is_there && self.size_as(sha256, contents.len() as u64) == Some(contents.len() as u64) {
                continue;
            }
            if parts.is_empty() {
                let made = protocol::files::private::make_folder(&folder.0);
                made.map_err(|source| failed("make", &folder.0, source))?;
            }
            let path = folder.0.join(parts.len().to_string());
            let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
            let written = file.and_then(|mut file| file.write_all(contents));
            written.map_err(|source| failed("write", &path, source))?;
            parts.push((sha256, path));
            new.push((*sha256, contents.len() as u64));
        }
        if parts.is_empty() {
            return Ok(new);
        }
        self.flush_all(incoming)?;
        self.name_all(parts)?;
        self.flush_all(incoming)?;
        self.shared.n_bytes_in.fetch_add(n_bytes, Ordering::Relaxed);
        Ok(new)
    }

    /// Sees to it that all that was written to a folder's file system is on the disk: for many files at once it takes as
    /// long as for one.
    fn flush_all(&self, folder: &Path) -> Result<(), ObjectError> {
        let flush = || File::open(folder).and_then(|folder| Ok(nix::unistd::syncfs(folder)?));
        self.shared.flusher.flush(flush).map_err(|source| failed("flush", folder, source))
    }

    /// Gives these files their names, which are not on the disk before it is flushed.
    fn name_all(&self, parts: Vec<(&Digest, PathBuf)>) -> Result<(), ObjectError> {
        let _naming = self.shared.naming.lock().unwrap_or_else(PoisonError::into_inner);
        for (sha256, part) in parts {
            let path = self.path_of(sha256);
            let mut named = fs::rename(&part, &path);
            if named.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                let folder = path.parent().unwrap_or(&path);
                let made = protocol::files::private::make_folder(folder);
                made.map_err(|source| failed("make", folder, source))?;
                named = fs::rename(&part, &path);
            }
            named.map_err(|source| failed("name", &path, source))?;
        }
        Ok(())
    }

    /// A pack of those of these objects that are here and small enough.
    pub fn pack(&self, wanted: &[Digest]) -> Vec<u8> {
        let (mut pack, mut n_all) = (Vec::new(), 0);
        for sha256 in wanted {
            let Ok(mut object) = self.open(sha256) else { continue };
            let n_bytes = object.n_bytes();
            if n_bytes > PACKED_BYTES_MAX || n_all + n_bytes > CONTENTS_BYTES_MAX as u64 {
                continue;
            }
            let (mut contents, mut is_whole) = (Vec::new(), false);
            while let Ok(piece) = object.read() {
                is_whole = piece.is_empty();
                if is_whole {
                    break;
                }
                contents.extend(piece);
            }
            if is_whole && contents.len() as u64 == n_bytes {
                n_all += n_bytes;
                pack::push(&mut pack, sha256, &contents);
            }
        }
        pack
    }

    /// Bytes that came and went since the start.
    pub fn n_moved(&self) -> (u64, u64) {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        (read(&self.shared.n_bytes_in), read(&self.shared.n_bytes_out))
    }

    /// Removes objects that nobody has asked for since `before`, but for those in use: `in_use`, and what
    /// `unused` does not leave of some that it is asked about. Says how many, and how many bytes they had. What
    /// comes or is asked for meanwhile stays. What `unused` says is in use is asked about again only when it has
    /// not been asked for as long once more.
    ///
    /// # Errors
    /// Those of `unused`. Cost: O(objects), a fixed amount of memory.
    pub fn collect<E>(
        &self,
        in_use: &BTreeSet<Digest>,
        before: SystemTime,
        mut unused: impl FnMut(BTreeSet<Digest>) -> Result<BTreeSet<Digest>, E>,
    ) -> Result<(u64, u64), E> {
        self.collect_rotten(before);
        let (mut n_removed, mut n_bytes) = (0, 0);
        let mut idle = self.idle(before).filter(|sha256| !in_use.contains(sha256));
        loop {
            let asked: BTreeSet<Digest> = idle.by_ref().take(N_ASKED).collect();
            if asked.is_empty() {
                return Ok((n_removed, n_bytes));
            }
            let unused = unused(asked.clone())?;
            for used in asked.difference(&unused) {
                self.size(used);
            }
            for removed in unused.iter().filter_map(|sha256| self.remove(sha256, before)) {
                n_removed += 1;
                n_bytes += removed;
            }
        }
    }

    /// Takes objects that are gone from what users have.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn prune_owners(&self) -> io::Result<()> {
        self.shared.owners.prune(|sha256| self.path_of(sha256).exists())
    }

    /// Objects that nobody has asked for since `before`.
    fn idle(&self, before: SystemTime) -> impl Iterator<Item = Digest> {
        let folders = fs::read_dir(&self.shared.objects).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
        files.filter_map(move |entry| {
            let sha256 = entry.file_name().to_str()?.parse().ok()?;
            is_idle(&entry.metadata().ok()?, before).then_some(sha256)
        })
    }

    /// Removes an object unless it was asked for just now. Says how many bytes it had.
    fn remove(&self, sha256: &Digest, before: SystemTime) -> Option<u64> {
        let path = self.path_of(sha256);
        let facts = fs::metadata(&path).ok()?;
        (is_idle(&facts, before) && fs::remove_file(&path).is_ok()).then_some(facts.len())
    }

    /// Nobody has looked into these for long enough.
    fn collect_rotten(&self, before: SystemTime) {
        for entry in fs::read_dir(&self.shared.rotten).into_iter().flatten().flatten() {
            if entry.metadata().is_ok_and(|facts| is_idle(&facts, before)) {
                // The next time, then.
                let _ = fs::remove_file(entry.path());
            }
        }
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
        let found = digest_of(&self.hash);
        if found != *wanted {
            return Err(ObjectError::Mismatch { found, wanted: *wanted });
        }
        self.file.sync_all().map_err(|source| failed("flush", &self.path, source))?;
        let path = self.store.path_of(wanted);
        let folder = path.parent().unwrap_or(&path);
        make_folder(folder)?;
        {
            let _naming = self.store.shared.naming.lock().unwrap_or_else(PoisonError::into_inner);
            fs::rename(&self.path, &path).map_err(|source| failed("name", &path, source))?;
        }
        let flushed = File::open(folder).and_then(|folder| folder.sync_all());
        flushed.map_err(|source| failed("flush", folder, source))?;
        self.store.shared.n_bytes_in.fetch_add(self.n_bytes, Ordering::Relaxed);
        Ok(self.n_bytes)
    }
}

/// Where the files of a pack are until they have their names. It goes, with all that has none.
struct PackFolder(PathBuf);

impl Drop for PackFolder {
    fn drop(&mut self) {
        // It is not there if nothing was written. What stays is removed by the next manager.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // It has another name if it is whole.
        let _ = fs::remove_file(&self.path);
    }
}

impl Outgoing {
    /// How many bytes it has.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// The rest of it from there on, for whoever has what is before: he checks the whole.
    ///
    /// # Errors
    /// The disk fails.
    pub fn skip(mut self, n_bytes: u64) -> io::Result<Outgoing> {
        if n_bytes > 0 {
            self.file.seek(io::SeekFrom::Start(n_bytes))?;
            (self.hash, self.n_left) = (None, self.n_bytes.saturating_sub(n_bytes));
        }
        Ok(self)
    }

    /// The next piece; an empty one is the end. If the last one shows that the object is rotten, it is set aside
    /// before anybody has that piece, and given all the same: whoever reads checks by himself.
    ///
    /// # Errors
    /// The disk fails.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        let n_max = usize::try_from(self.n_left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        if n_max == 0 {
            return Ok(Vec::new());
        }
        let mut piece = vec![0; n_max];
        let n = self.file.read(&mut piece)?;
        piece.truncate(n);
        if let Some(hash) = &mut self.hash {
            hash.update(&piece);
        }
        // It may have become shorter since.
        self.n_left = if n == 0 { 0 } else { self.n_left - n as u64 };
        self.store.shared.n_bytes_out.fetch_add(n as u64, Ordering::Relaxed);
        if self.n_left == 0 {
            self.check();
        }
        Ok(piece)
    }

    /// Whether all that was read is what it should be; if not, it is set aside.
    fn check(&self) -> bool {
        let is_right = self.hash.as_ref().is_none_or(|hash| digest_of(hash) == self.sha256);
        if !is_right {
            self.store.set_aside(&self.sha256, &self.file);
        }
        is_right
    }
}

/// An object that was used just before its use would have been noted again is not older than it looks by more than
/// [`USE_NOTED_AFTER`].
fn is_idle(facts: &fs::Metadata, before: SystemTime) -> bool {
    facts.modified().is_ok_and(|at| at + USE_NOTED_AFTER < before)
}

/// Notes that an object is used now, unless that was noted a short time ago.
fn note_use(file: &File, facts: &fs::Metadata) {
    let now = SystemTime::now();
    // A time in the future says nothing: the clock was set back.
    let age = facts.modified().ok().and_then(|at| now.duration_since(at).ok());
    if age.is_none_or(|age| age >= USE_NOTED_AFTER) {
        // Who cannot mark it may at least read it.
        let _ = file.set_modified(now);
    }
}

/// Of what was hashed up to now.
fn digest_of(hash: &Context) -> Digest {
    let mut found = Digest::default();
    found.0.copy_from_slice(hash.clone().finish().as_ref());
    found
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
    let made = protocol::files::private::make_folder(path);
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
mod tests;
