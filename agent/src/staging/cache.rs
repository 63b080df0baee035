//! The cache: files of this node, addressed by their contents, for all pilots of a user here.
//!
//! Several agents share the folder at a time, and each may be killed at any moment. So an object gets its
//! name only once it is complete. An agent that uses an object has a second name for it (a hard link in a
//! folder of its own), which marks the object as used and also keeps it. The agent's folder is locked as long
//! as the agent lives, so other agents can tell which names are unused. There is no index file.
//!
//! Objects cannot be written. If something writes to one nevertheless (root, a failing disk), the mark in its
//! modification time is lost, or an agent notices the change when it first uses the object.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, FileTimes, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use scheduler::digest::Digest;

pub use self::dead::{is_cache, remove_dead_caches, remove_if_dead};
use crate::{
    session::client::random,
    sys::{private, sha256},
};

mod dead;
mod overflow;

/// Default size limit, unless a tenth of the free space is less.
const BYTES_DEFAULT: u64 = 10 << 30;
/// Objects are counted again after at least this many new ones, because other agents add objects too.
const N_UNCOUNTED_MIN: u64 = 64;
/// ... and not before they make up one of this many parts of the counted objects (or their bytes of all
/// bytes), so that the total cost of counting grows linearly with the objects, not with their square.
const N_UNCOUNTED_PART: u64 = 2;
const BYTES_UNCOUNTED_PART: u64 = 16;
/// Eviction goes below the size limit by this part of it, so that it is not needed for each object.
const SPARE_PART: u64 = 10;
/// The modification time that marks unchanged objects, in seconds.
const MARK_S: u64 = 1_000_000_000;
/// Interval between two notes of an object's use; more precision would not improve the eviction order.
const USE_NOTED_AFTER: Duration = Duration::from_secs(60);
/// Number of locks for fetching, shared by all objects.
const N_LOCKS: u8 = 64;

/// The permissions of objects, which are also names in tasks' folders.
pub(super) const OBJECT_MODE: u32 = 0o500;

/// The folder of the cache, and its size limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CachePlace {
    /// The cache's folder.
    pub folder: PathBuf,
    /// The most bytes; `None`: from the free space.
    pub bytes_max: Option<u64>,
    /// Set if the folder belongs to one allocation only. Its last pilot removes it, with the empty folders
    /// above it up to this one.
    pub own: Option<PathBuf>,
    /// Folder for files when the cache's disk is full, used if it is on another file system. It is removed
    /// with the pilot.
    pub overflow: Option<PathBuf>,
}

impl CachePlace {
    /// Returns a cache that pilots share, without an overflow folder.
    pub fn new(folder: PathBuf, bytes_max: Option<u64>) -> CachePlace {
        CachePlace { folder, bytes_max, own: None, overflow: None }
    }
}

/// The cache as seen by one agent. All methods block.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    /// This agent's own folder, for pins and incomplete files.
    own: PathBuf,
    bytes_max: u64,
    /// Locked while the agent lives.
    _alive: File,
    state: Mutex<State>,
    /// See [`CachePlace::own`].
    own_top: Option<PathBuf>,
    overflow: Option<PathBuf>,
    /// The overflow cache, once it is in use.
    second: OnceLock<Box<Cache>>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of uses of each pinned object.
    pins: HashMap<Digest, u32>,
    /// Objects whose contents were verified since this agent started.
    verified: HashSet<Digest>,
    /// Bytes of all objects by the last count, plus those added since.
    n_bytes: u64,
    n_uncounted: u64,
    bytes_uncounted: u64,
    /// Number of objects at the last count; `None`: they were never counted.
    n_counted: Option<u64>,
    /// Whether the last count found only objects in use, so that nothing could be evicted.
    is_stuck: bool,
    n_ever: u64,
    /// Number of times that an object was looked at to count it.
    n_looks: u64,
}

/// The outcome of counting objects.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    n_bytes: u64,
    n_objects: u64,
    n_looks: u64,
}

impl State {
    /// Adds an object.
    fn add(&mut self, n_bytes: u64) {
        self.n_bytes = self.n_bytes.saturating_add(n_bytes);
        self.bytes_uncounted = self.bytes_uncounted.saturating_add(n_bytes);
        self.n_uncounted += 1;
    }

    /// Notes a count.
    fn note(&mut self, count: Count) {
        (self.n_bytes, self.n_counted) = (count.n_bytes, Some(count.n_objects));
        (self.n_uncounted, self.bytes_uncounted) = (0, 0);
        self.n_looks += count.n_looks;
    }

    /// Returns whether a new count is due.
    fn is_due(&self, bytes_max: u64) -> bool {
        let Some(n_counted) = self.n_counted else { return true };
        let is_many = self.n_uncounted >= N_UNCOUNTED_MIN.max(n_counted / N_UNCOUNTED_PART);
        // A stuck cache has more bytes than its limit.
        is_many || self.bytes_uncounted >= (bytes_max.max(self.n_bytes) / BYTES_UNCOUNTED_PART).max(1)
    }
}

/// An object that is kept until [`Cache::unpin`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// Its contents.
    pub sha256: Digest,
    /// The path where it can be read.
    pub path: PathBuf,
}

/// The lock under which an object is fetched, against all other agents here.
#[derive(Debug)]
pub struct FetchLock(File);

/// A file that is being fetched. If it is dropped incomplete, it is removed.
pub struct Part {
    path: PathBuf,
    file: File,
    hash: ring::digest::Context,
    n_bytes: u64,
}

impl Cache {
    /// Opens the cache in a folder, which is created; removes leftovers of agents that have ended.
    ///
    /// # Errors
    /// The folder cannot be created or written.
    pub fn open(place: &CachePlace) -> io::Result<Cache> {
        let root = place.folder.clone();
        for folder in ["objects", "urls", "locks", "users"] {
            private::make_folder(&root.join(folder))?;
        }
        let guard = lock_all(&root)?;
        dead::remove_users(&root.join("users"));
        let own = root.join("users").join(format!("{}-{:016x}", std::process::id(), random()));
        private::make_folder(&own.join("pins"))?;
        let mut alive = private::file_options().write(true).open(own.join("alive"))?;
        private::lock(&alive);
        // Without this, other agents cannot tell that the folder is unused, and leave it alone.
        let _ = alive.write_all(dead::keeper().as_bytes());
        drop(guard);
        let bytes_max = place.bytes_max.unwrap_or_else(|| BYTES_DEFAULT.min(free_bytes(&root) / 10));
        let (own_top, overflow) = (place.own.clone(), place.overflow.clone());
        let (state, second) = (Mutex::default(), OnceLock::new());
        let cache = Cache { root, own, bytes_max, _alive: alive, state, own_top, overflow, second };
        cache.leave_to_guard();
        Ok(cache)
    }

    /// Returns the size limit.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, sha256: &Digest) -> PathBuf {
        self.root.join("objects").join(sha256.to_string())
    }

    fn pin_path(&self, sha256: &Digest) -> PathBuf {
        self.own.join("pins").join(sha256.to_string())
    }

    /// Returns the object, pinned until [`Cache::unpin`], if it is here and correct; removes a wrong one.
    /// Reads the whole object if this agent uses it for the first time, or if it was written to.
    ///
    /// # Errors
    /// The disk fails.
    pub fn pin(&self, sha256: &Digest) -> io::Result<Option<Pin>> {
        let Some(second) = self.second() else { return self.pin_here(sha256) };
        if second.state().pins.contains_key(sha256) {
            return second.pin_here(sha256);
        }
        match self.pin_here(sha256) {
            Ok(None) | Err(_) => second.pin_here(sha256),
            found => found,
        }
    }

    fn pin_here(&self, sha256: &Digest) -> io::Result<Option<Pin>> {
        let path = self.pin_path(sha256);
        if !self.take_name(sha256, &path)? {
            return Ok(None);
        }
        let file = File::open(&path)?;
        let is_marked = file.metadata()?.modified()? == mark();
        if !is_marked || !self.state().verified.contains(sha256) {
            if !is_right(&file, is_marked, sha256)? {
                tracing::warn!(%sha256, "a file in the cache was not what it should be and is fetched again");
                self.state().verified.remove(sha256);
                // Another agent may have removed it; no agent may find it again.
                let _ = fs::remove_file(self.object(sha256));
                self.unpin(sha256);
                // Earlier uses keep their own names for it; this name must not be given to anyone else.
                let _ = fs::remove_file(&path);
                return Ok(None);
            }
            self.state().verified.insert(*sha256);
        }
        // An agent that cannot note the use can still read the object, which is then evicted earlier.
        let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
        Ok(Some(Pin { sha256: *sha256, path }))
    }

    /// Counts a use of the object and creates our name for it. Returns false if it is not here.
    fn take_name(&self, sha256: &Digest, path: &Path) -> io::Result<bool> {
        let mut state = self.state();
        if let Some(n_uses) = state.pins.get_mut(sha256)
            && path.exists()
        {
            *n_uses += 1;
            return Ok(true);
        }
        match fs::hard_link(self.object(sha256), path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        *state.pins.entry(*sha256).or_default() += 1;
        Ok(true)
    }

    /// Ends one use of the object.
    pub fn unpin(&self, sha256: &Digest) {
        if let Some(second) = self.second().filter(|second| second.state().pins.contains_key(sha256)) {
            return second.unpin(sha256);
        }
        let mut state = self.state();
        let Some(n_uses) = state.pins.get_mut(sha256) else { return };
        *n_uses = n_uses.saturating_sub(1);
        if *n_uses == 0 {
            state.pins.remove(sha256);
            // If the name stays, the object is kept as long as this agent lives.
            let _ = fs::remove_file(self.pin_path(sha256));
        }
    }

    /// Returns the lock for fetching an object, if no other agent holds it.
    ///
    /// # Errors
    /// The lock file cannot be created.
    pub fn try_lock(&self, key: &Digest) -> io::Result<Option<FetchLock>> {
        let opened = private::file_options().write(true).open(self.lock_path(key));
        match (opened, self.second()) {
            (Ok(file), _) => Ok(private::lock(&file).then_some(FetchLock(file))),
            (Err(_), Some(second)) => second.try_lock(key),
            (Err(error), None) => Err(error),
        }
    }

    /// Returns a time that changes whenever the holder of the object's lock shows that it is alive.
    pub fn life_of(&self, key: &Digest) -> Option<SystemTime> {
        let shown = fs::metadata(self.lock_path(key)).and_then(|facts| facts.modified()).ok();
        shown.or_else(|| self.second()?.life_of(key))
    }

    fn lock_path(&self, key: &Digest) -> PathBuf {
        self.root.join("locks").join((key.0[0] % N_LOCKS).to_string())
    }

    /// Creates an incomplete file and makes room for its expected size.
    ///
    /// # Errors
    /// The disk fails or is full.
    pub fn begin(&self, n_expected: u64) -> io::Result<Part> {
        if let Some(second) = self.second() {
            return second.begin(n_expected);
        }
        self.make_room(n_expected);
        let path = self.part_path();
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Part { path, file, hash: sha256::begin(), n_bytes: 0 })
    }

    /// Returns whether the object is here, judged by its name only.
    pub fn has(&self, sha256: &Digest) -> bool {
        self.object(sha256).exists() || self.second().is_some_and(|second| second.has(sha256))
    }

    /// Returns whether the object was read and found correct since this agent started.
    pub fn is_verified(&self, sha256: &Digest) -> bool {
        self.state().verified.contains(sha256)
            || self.second().is_some_and(|second| second.is_verified(sha256))
    }

    /// Returns an unused name.
    fn part_path(&self) -> PathBuf {
        let mut state = self.state();
        state.n_ever += 1;
        self.own.join(format!("part-{}", state.n_ever))
    }

    /// Adds a file that a task has left, whose contents were hashed; it also keeps its name in the task's
    /// folder. From now on it cannot be written, and it is read once more at its first use. Returns false if
    /// it cannot be kept longer than the task's folder, because it has other names, is larger than the cache,
    /// or is on another file system.
    ///
    /// # Errors
    /// The disk fails or is full.
    pub fn adopt(&self, path: &Path, n_bytes: u64, sha256: &Digest) -> io::Result<bool> {
        if self.has(sha256) {
            return Ok(true);
        }
        if let Some(second) = self.second() {
            return second.adopt(path, n_bytes, sha256);
        }
        let facts = fs::symlink_metadata(path)?;
        if !facts.is_file() || facts.nlink() > 1 || n_bytes > self.bytes_max {
            return Ok(false);
        }
        self.state().verified.remove(sha256);
        self.make_room(n_bytes);
        let part = self.part_path();
        match fs::hard_link(path, &part) {
            Ok(()) => {}
            Err(error) if has_no_links(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        let kept = File::open(&part).and_then(|file| {
            file.set_permissions(fs::Permissions::from_mode(OBJECT_MODE))?;
            file.set_times(FileTimes::new().set_accessed(SystemTime::now()).set_modified(mark()))?;
            fs::rename(&part, self.object(sha256))
        });
        if kept.is_err() {
            // If the name stays, it goes with the agent's folder.
            let _ = fs::remove_file(&part);
        }
        kept?;
        self.state().add(n_bytes);
        Ok(true)
    }

    /// Adds a file from a pack if its contents are right. The caller makes room for all files of the pack.
    ///
    /// # Errors
    /// The disk fails or is full.
    pub fn take_in(&self, contents: &[u8], sha256: &Digest) -> io::Result<bool> {
        if let Some(second) = self.second() {
            return second.take_in(contents, sha256);
        }
        if sha256::of(contents) != *sha256 {
            return Ok(false);
        }
        // It gets its final name at once: until it is complete it has no mark, and is read before use.
        let object = self.object(sha256);
        let mut open = OpenOptions::new();
        open.write(true).create_new(true).mode(OBJECT_MODE);
        let (mut file, part) = match open.open(&object) {
            Ok(file) => (file, None),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let part = self.part_path();
                (open.open(&part)?, Some(part))
            }
            Err(error) => return Err(error),
        };
        let written = file.write_all(contents).and_then(|()| {
            file.set_times(FileTimes::new().set_accessed(SystemTime::now()).set_modified(mark()))?;
            part.as_ref().map_or(Ok(()), |part| fs::rename(part, &object))
        });
        if written.is_err() {
            // A file that cannot be removed has no mark, so it is read before use and found to be incomplete.
            let _ = fs::remove_file(part.as_ref().unwrap_or(&object));
        }
        written?;
        let mut state = self.state();
        state.verified.insert(*sha256);
        state.add(contents.len() as u64);
        Ok(true)
    }

    /// Calls `put` with an object's path, without a name of ours for it. Returns false if the object is not
    /// here, is wrong, or cannot be put there. Cost: as for [`Cache::pin`].
    ///
    /// # Errors
    /// The target exists, the disk is full, or the work was stopped.
    pub fn give(&self, sha256: &Digest, put: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<bool> {
        let object = self.object(sha256);
        let facts = match (fs::metadata(&object), self.second()) {
            (Ok(facts), _) => facts,
            (Err(_), Some(second)) => return second.give(sha256, put),
            (Err(_), None) => return Ok(false),
        };
        if facts.modified().ok() != Some(mark()) {
            return Ok(false);
        }
        if !self.is_verified(sha256) {
            if !File::open(&object).and_then(|file| is_right(&file, true, sha256)).unwrap_or(false) {
                return Ok(false);
            }
            self.state().verified.insert(*sha256);
        }
        let is_old = facts.accessed().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > USE_NOTED_AFTER));
        if is_old && let Ok(file) = File::open(&object) {
            // An agent that cannot note the use can still read the object, which is then evicted earlier.
            let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
        }
        match put(&object) {
            Ok(()) => Ok(true),
            Err(error) if has_no_links(&error) || error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::TooManyLinks => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Evicts unused objects, the longest unused first, until there is room for `n_more` bytes. Used objects
    /// stay even above the size limit, because tasks need them.
    pub fn make_room(&self, n_more: u64) {
        if let Some(second) = self.second() {
            return second.make_room(n_more);
        }
        let mut state = self.state();
        let is_enough = state.is_stuck || state.n_bytes.saturating_add(n_more) <= self.bytes_max;
        if is_enough && !state.is_due(self.bytes_max) {
            return;
        }
        let n_kept_max = (self.bytes_max - self.bytes_max / SPARE_PART).saturating_sub(n_more);
        let is_tight = |n_bytes: u64| n_bytes.saturating_add(n_more) > self.bytes_max;
        let Ok(_guard) = lock_all(&self.root) else { return };
        self.remove_dead_users();
        let count = evict(&self.root.join("objects"), is_tight, n_kept_max);
        state.note(count);
        state.is_stuck = is_tight(count.n_bytes);
    }

    /// Removes the folders of killed agents, which releases their objects. This also finds agents that had
    /// not quite ended when this cache was opened.
    fn remove_dead_users(&self) {
        dead::remove_users(&self.root.join("users"));
    }

    /// Evicts all unused objects, because the disk is full.
    pub fn drop_unused(&self) {
        self.second().into_iter().for_each(Cache::drop_unused);
        let mut state = self.state();
        let Ok(_guard) = lock_all(&self.root) else { return };
        self.remove_dead_users();
        state.note(evict(&self.root.join("objects"), |_| true, 0));
    }

    /// Adds a complete file if its contents are right; returns its digest and size, or its wrong digest.
    /// Makes room for it, because it may be larger than expected.
    ///
    /// # Errors
    /// The disk fails.
    pub fn finish(&self, part: Part, wanted: Option<&Digest>) -> io::Result<Result<(Digest, u64), Digest>> {
        if let Some(second) = self.second().filter(|second| part.path.starts_with(&second.root)) {
            return second.finish(part, wanted);
        }
        let found = sha256::finished(part.hash.clone());
        if wanted.is_some_and(|wanted| *wanted != found) {
            return Ok(Err(found));
        }
        // Programs among the inputs must be executable, and nothing may be writable.
        part.file.set_permissions(fs::Permissions::from_mode(OBJECT_MODE))?;
        part.file.set_times(FileTimes::new().set_accessed(SystemTime::now()).set_modified(mark()))?;
        self.make_room(part.n_bytes);
        fs::rename(&part.path, self.object(&found))?;
        let mut state = self.state();
        state.verified.insert(found);
        state.add(part.n_bytes);
        Ok(Ok((found, part.n_bytes)))
    }

    /// Returns the contents that an address was found to have, for a caller that may use an older version.
    pub fn known_at(&self, key: &Digest) -> Option<Digest> {
        let text = fs::read_to_string(self.root.join("urls").join(key.to_string())).ok();
        text.and_then(|text| text.parse().ok()).or_else(|| self.second()?.known_at(key))
    }

    /// Notes the contents of an address.
    pub fn note_at(&self, key: &Digest, sha256: &Digest) {
        self.note(key, &sha256.to_string());
    }

    /// Returns the note on a missing file at an address, unless it is older than `not_before`.
    pub fn missing_at(&self, key: &Digest, not_before: Duration) -> Option<String> {
        if let Some(second) = self.second() {
            return second.missing_at(key, not_before);
        }
        let path = self.root.join("urls").join(key.to_string());
        let is_new = fs::metadata(&path).ok()?.modified().ok()?.elapsed().is_ok_and(|age| age < not_before);
        fs::read_to_string(path).ok().filter(|_| is_new)
    }

    /// Notes that an address has no file.
    pub fn note_missing(&self, key: &Digest, what: &str) {
        self.note(key, what);
    }

    /// Returns the note of the last agent that waited for this file in vain.
    pub fn silence_at(&self, key: &Digest) -> Option<String> {
        if let Some(second) = self.second() {
            return second.silence_at(key);
        }
        fs::read_to_string(self.root.join("urls").join(key.to_string())).ok()
    }

    /// Notes a wait in vain.
    pub fn note_silence(&self, key: &Digest, text: &str) {
        self.note(key, text);
    }

    fn note(&self, key: &Digest, text: &str) {
        if let Some(second) = self.second() {
            return second.note(key, text);
        }
        let path = self.root.join("urls").join(key.to_string());
        let part = self.own.join(format!("url-{key}"));
        // Without the note the file is fetched again.
        let _ = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // The next agent removes the rest.
        let _ = fs::remove_dir_all(&self.own);
        self.second.take();
        // Pilots of one allocation share its tag, so the last one removes the folder.
        if let Some(top) = &self.own_top {
            dead::remove_if_unused(&self.root, top);
        }
    }
}

impl FetchLock {
    /// Shows waiting agents that the fetch goes on.
    pub fn show_life(&self) {
        // Without this other agents stop waiting soon.
        let _ = self.0.set_modified(SystemTime::now());
    }
}

impl Part {
    /// Appends bytes.
    ///
    /// # Errors
    /// The disk fails or is full.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.n_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Returns the number of bytes so far.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A complete file has its final name by now.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether a hard link is not possible there: another file system, or one without hard links.
fn has_no_links(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | Unsupported)
}

/// Reads the whole object and checks it. An object without the mark gets it if it is right and was not
/// written to meanwhile; while it is read, it has a unique time, which no other agent takes for the mark.
fn is_right(file: &File, is_marked: bool, sha256: &Digest) -> io::Result<bool> {
    if is_marked {
        return Ok(hash_of(file)?.0 == *sha256);
    }
    let time = mark() - Duration::from_secs(1 + random() % MARK_S);
    // If the time cannot be set, the object is read at each use.
    let _ = file.set_modified(time);
    let is_right = hash_of(file)?.0 == *sha256;
    if is_right && file.metadata()?.modified()? == time {
        let _ = file.set_modified(mark());
    }
    Ok(is_right)
}

/// Returns whether an object, or a task's copy of one, is unchanged since it was stored.
pub(super) fn is_marked(facts: &fs::Metadata) -> bool {
    facts.modified().is_ok_and(|at| at == mark())
}

/// Returns the modification time that marks unchanged objects.
pub(super) fn mark() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(MARK_S)
}

/// Returns the SHA-256 and the size of a file.
///
/// # Errors
/// The file cannot be read.
pub fn hash_of(mut file: &File) -> io::Result<(Digest, u64)> {
    let mut hash = sha256::begin();
    // For small files, allocating a large buffer costs more than reading. Some files have no size.
    let n_expected = file.metadata().map_or(u64::MAX, |facts| facts.len()).saturating_add(1);
    let n_piece = usize::try_from(n_expected).unwrap_or(usize::MAX).clamp(4 << 10, 128 << 10);
    let (mut piece, mut n_bytes) = (vec![0; n_piece], 0);
    loop {
        match file.read(&mut piece)? {
            0 => break,
            n => {
                hash.update(&piece[..n]);
                n_bytes += n as u64;
            }
        }
    }
    Ok((sha256::finished(hash), n_bytes))
}

/// Locks the cache for a moment, to count, remove or add.
///
/// A thread that also needs the cache's state takes the state first; in the other order two threads could
/// deadlock.
fn lock_all(root: &Path) -> io::Result<File> {
    let file = private::file_options().write(true).open(root.join("lock"))?;
    private::lock_patiently(&file);
    Ok(file)
}

/// Counts objects, and if there are too many bytes removes those without another name, the longest unused
/// first, down to `n_kept_max` bytes. Returns the final count.
fn evict(objects: &Path, is_tight: impl Fn(u64) -> bool, n_kept_max: u64) -> Count {
    let entries = fs::read_dir(objects).into_iter().flatten().flatten();
    let mut found: Vec<(SystemTime, PathBuf, u64, bool)> = entries
        .filter_map(|entry| {
            let facts = entry.metadata().ok()?;
            let used_at = facts.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
            Some((used_at, entry.path(), facts.len(), facts.nlink() > 1))
        })
        .collect();
    let n_looks = found.len() as u64;
    let mut n_bytes: u64 = found.iter().map(|(_, _, n_bytes, _)| n_bytes).sum();
    let mut n_objects = n_looks;
    if !is_tight(n_bytes) {
        return Count { n_bytes, n_objects, n_looks };
    }
    found.sort();
    for (_, path, size, is_used) in found {
        if n_bytes <= n_kept_max {
            break;
        }
        // An agent that links it at this moment keeps it under its own name.
        if !is_used && fs::remove_file(&path).is_ok() {
            n_bytes -= size;
            n_objects -= 1;
        }
    }
    Count { n_bytes, n_objects, n_looks }
}

fn free_bytes(path: &Path) -> u64 {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()) else { return 0 };
    // SAFETY: zeros are a valid `statvfs`, which is read only if the call has filled it.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with NUL, and the structure is a local.
    match unsafe { libc::statvfs(path.as_ptr(), &mut facts) } {
        0 => (facts.f_bavail as u64).saturating_mul(facts.f_frsize as u64),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
