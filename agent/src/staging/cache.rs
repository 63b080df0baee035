//! Files of this node by what they hold, for all pilots of a user here.
//!
//! Several agents share the folder at a time, and any of them may be killed at any moment. So an object gets
//! its name once it is whole; who uses one has a second name for it (a hard link in a folder of its own), which
//! is at once what says that it is in use and what keeps it; and that folder is locked for as long as its agent
//! lives, so that the next one can tell what nobody needs any more. No file lists anything.
//!
//! Objects cannot be written. Whoever can all the same (root, a disk) changes the time that they are marked
//! with, or is found out when an agent uses the object for the first time.

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

/// Without another word the cache may have this, or a tenth of what is free.
const BYTES_DEFAULT: u64 = 10 << 30;
/// All is counted anew after so many objects at least: other agents bring some too.
const N_UNCOUNTED_MIN: u64 = 64;
/// ... and only when there are so many more than there were, as parts of those, or so many more bytes: what counting
/// costs, all together, grows as the objects do, and not with their square.
const N_UNCOUNTED_PART: u64 = 2;
const BYTES_UNCOUNTED_PART: u64 = 16;
/// What is removed to make room goes below the bound by this part of it, so that it is not done for each object.
const SPARE_PART: u64 = 10;
/// The time that untouched objects are marked with, in seconds.
const MARK_S: u64 = 1_000_000_000;
/// The use of an object is noted once in this time: more says no more of which was not used for the longest.
const USE_NOTED_AFTER: Duration = Duration::from_secs(60);
/// Objects share so many locks for being fetched.
const N_LOCKS: u8 = 64;

/// The permissions of objects, which are files of tasks under other names.
pub(super) const OBJECT_MODE: u32 = 0o500;

/// Where the cache is, and how large it may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CachePlace {
    /// Its folder.
    pub folder: PathBuf,
    /// The most that it has; `None`: by what is free.
    pub bytes_max: Option<u64>,
    /// The folder is one allocation's alone and goes with its last pilot, with the empty ones above it up to this one.
    pub own: Option<PathBuf>,
    /// Where files go when the cache's disk is full, if that is on another file system. It goes with the pilot.
    pub overflow: Option<PathBuf>,
}

impl CachePlace {
    /// A cache that pilots share, without another place.
    pub fn new(folder: PathBuf, bytes_max: Option<u64>) -> CachePlace {
        CachePlace { folder, bytes_max, own: None, overflow: None }
    }
}

/// The cache as one agent sees it. All of it blocks.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    /// This agent's own folder: pins and what is not whole yet.
    own: PathBuf,
    bytes_max: u64,
    /// Held while the agent lives.
    _alive: File,
    state: Mutex<State>,
    /// See [`CachePlace::own`].
    own_top: Option<PathBuf>,
    overflow: Option<PathBuf>,
    /// The cache there, once it is needed.
    second: OnceLock<Box<Cache>>,
}

#[derive(Debug, Default)]
struct State {
    /// How many uses each pinned object has.
    pins: HashMap<Digest, u32>,
    /// Objects whose contents were seen to be right since this agent started.
    verified: HashSet<Digest>,
    /// What the objects have together, as last counted, and what came since.
    n_bytes: u64,
    n_uncounted: u64,
    bytes_uncounted: u64,
    /// How many objects there were when they were counted; `None`: they never were.
    n_counted: Option<u64>,
    /// When they were counted, no room could be made, as all of them were in use.
    is_stuck: bool,
    n_ever: u64,
    /// How often an object was looked at to count it.
    n_looks: u64,
}

/// What there is of objects.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    n_bytes: u64,
    n_objects: u64,
    n_looks: u64,
}

impl State {
    /// An object has come.
    fn add(&mut self, n_bytes: u64) {
        self.n_bytes = self.n_bytes.saturating_add(n_bytes);
        self.bytes_uncounted = self.bytes_uncounted.saturating_add(n_bytes);
        self.n_uncounted += 1;
    }

    /// They were counted.
    fn note(&mut self, count: Count) {
        (self.n_bytes, self.n_counted) = (count.n_bytes, Some(count.n_objects));
        (self.n_uncounted, self.bytes_uncounted) = (0, 0);
        self.n_looks += count.n_looks;
    }

    /// Whether it is time to count them.
    fn is_due(&self, bytes_max: u64) -> bool {
        let Some(n_counted) = self.n_counted else { return true };
        let is_many = self.n_uncounted >= N_UNCOUNTED_MIN.max(n_counted / N_UNCOUNTED_PART);
        // Of one that is stuck there is more than there should be.
        is_many || self.bytes_uncounted >= (bytes_max.max(self.n_bytes) / BYTES_UNCOUNTED_PART).max(1)
    }
}

/// An object that cannot go while this is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// What it holds.
    pub sha256: Digest,
    /// Where it can be read.
    pub path: PathBuf,
}

/// Held while an object is fetched, against all other agents here.
#[derive(Debug)]
pub struct FetchLock(File);

/// A file that is being fetched. Dropped before it is whole, nothing of it is left.
pub struct Part {
    path: PathBuf,
    file: File,
    hash: ring::digest::Context,
    n_bytes: u64,
}

impl Cache {
    /// The cache in a folder, which is made; what agents have left there that are no more is removed.
    ///
    /// # Errors
    /// The folder cannot be made or written.
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
        // By which agents of this host tell that nobody uses the folder any more; without it they let it alone.
        let _ = alive.write_all(dead::keeper().as_bytes());
        drop(guard);
        let bytes_max = place.bytes_max.unwrap_or_else(|| BYTES_DEFAULT.min(free_bytes(&root) / 10));
        let (own_top, overflow) = (place.own.clone(), place.overflow.clone());
        let (state, second) = (Mutex::default(), OnceLock::new());
        let cache = Cache { root, own, bytes_max, _alive: alive, state, own_top, overflow, second };
        cache.leave_to_guard();
        Ok(cache)
    }

    /// The most that it should have.
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

    /// The object, kept until [`Cache::unpin`], if it is here and what it should be. What is not is removed.
    /// Cost: it is read as a whole when this agent uses it for the first time, or if somebody has written to it.
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
                // Others may have removed it; it must not be found again by anybody.
                let _ = fs::remove_file(self.object(sha256));
                self.unpin(sha256);
                // Uses of before keep their own names for it; this one is not to be given to anybody else.
                let _ = fs::remove_file(&path);
                return Ok(None);
            }
            self.state().verified.insert(*sha256);
        }
        // Whoever may not note its use reads it all the same; then it goes earlier.
        let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
        Ok(Some(Pin { sha256: *sha256, path }))
    }

    /// Counts a use of the object, with a name of ours for it. False: it is not here.
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

    /// One use of the object is over.
    pub fn unpin(&self, sha256: &Digest) {
        if let Some(second) = self.second().filter(|second| second.state().pins.contains_key(sha256)) {
            return second.unpin(sha256);
        }
        let mut state = self.state();
        let Some(n_uses) = state.pins.get_mut(sha256) else { return };
        *n_uses = n_uses.saturating_sub(1);
        if *n_uses == 0 {
            state.pins.remove(sha256);
            // If it stays, the object is kept for as long as this agent lives.
            let _ = fs::remove_file(self.pin_path(sha256));
        }
    }

    /// The right to fetch an object, if no other agent is at it.
    ///
    /// # Errors
    /// No lock file can be made.
    pub fn try_lock(&self, key: &Digest) -> io::Result<Option<FetchLock>> {
        let opened = private::file_options().write(true).open(self.lock_path(key));
        match (opened, self.second()) {
            (Ok(file), _) => Ok(private::lock(&file).then_some(FetchLock(file))),
            (Err(_), Some(second)) => second.try_lock(key),
            (Err(error), None) => Err(error),
        }
    }

    /// Differs whenever the one who has the right to fetch the object has shown life.
    pub fn life_of(&self, key: &Digest) -> Option<SystemTime> {
        let shown = fs::metadata(self.lock_path(key)).and_then(|facts| facts.modified()).ok();
        shown.or_else(|| self.second()?.life_of(key))
    }

    fn lock_path(&self, key: &Digest) -> PathBuf {
        self.root.join("locks").join((key.0[0] % N_LOCKS).to_string())
    }

    /// Begins a file of which so much is expected, and makes room for it.
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

    /// Whether the object is here, as far as names tell.
    pub fn has(&self, sha256: &Digest) -> bool {
        self.object(sha256).exists() || self.second().is_some_and(|second| second.has(sha256))
    }

    /// Whether it was read since this agent started, and seen to be what it should be.
    pub fn is_verified(&self, sha256: &Digest) -> bool {
        self.state().verified.contains(sha256)
            || self.second().is_some_and(|second| second.is_verified(sha256))
    }

    /// A name that nothing has.
    fn part_path(&self) -> PathBuf {
        let mut state = self.state();
        state.n_ever += 1;
        self.own.join(format!("part-{}", state.n_ever))
    }

    /// Takes in a file that a task has left and that was seen to have these contents; it keeps its name there. Nobody
    /// can write it from now on, and it is read once more when it is first used. False: it stays no more than its
    /// folder does, as it has other names, is larger than the cache or on another file system.
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
            // What stays goes with the folder.
            let _ = fs::remove_file(&part);
        }
        kept?;
        self.state().add(n_bytes);
        Ok(true)
    }

    /// Takes in a file that came in a pack, if it is what it should be. Whoever brings many makes room for all of them.
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
        // Under its name at once: until it is whole it has no mark, and whoever uses one without reads it first.
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
            // A file that cannot be removed has no mark: whoever uses it reads it first, and finds that it is not whole.
            let _ = fs::remove_file(part.as_ref().unwrap_or(&object));
        }
        written?;
        let mut state = self.state();
        state.verified.insert(*sha256);
        state.add(contents.len() as u64);
        Ok(true)
    }

    /// Has an object put somewhere without a name of ours for it. False: it is not here or not what it should be, or cannot
    /// be put there. Cost: as for [`Cache::pin`].
    ///
    /// # Errors
    /// Something is there already, the disk is full, or nobody wants it any more.
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
            // Whoever may not note its use reads it all the same; then it goes earlier.
            let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
        }
        match put(&object) {
            Ok(()) => Ok(true),
            Err(error) if has_no_links(&error) || error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::TooManyLinks => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes what nobody uses, the longest unused first, until there is room for so much more. What is in use
    /// stays, even if it alone is more than the bound: tasks need it.
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

    /// Removes the folders of killed agents, so that nobody uses their files any more. An agent that had not quite ended
    /// when this cache was opened is found here.
    fn remove_dead_users(&self) {
        dead::remove_users(&self.root.join("users"));
    }

    /// Removes all that nobody uses: the disk is full.
    pub fn drop_unused(&self) {
        self.second().into_iter().for_each(Cache::drop_unused);
        let mut state = self.state();
        let Ok(_guard) = lock_all(&self.root) else { return };
        self.remove_dead_users();
        state.note(evict(&self.root.join("objects"), |_| true, 0));
    }

    /// Takes in a file that is whole, if it is what is wanted; says what it is. Makes room for it, as it may be larger
    /// than was expected.
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
        // Programs among the inputs can be run, and nothing can be written.
        part.file.set_permissions(fs::Permissions::from_mode(OBJECT_MODE))?;
        part.file.set_times(FileTimes::new().set_accessed(SystemTime::now()).set_modified(mark()))?;
        self.make_room(part.n_bytes);
        fs::rename(&part.path, self.object(&found))?;
        let mut state = self.state();
        state.verified.insert(found);
        state.add(part.n_bytes);
        Ok(Ok((found, part.n_bytes)))
    }

    /// What an address was found to hold, for who may take it as it was.
    pub fn known_at(&self, key: &Digest) -> Option<Digest> {
        let text = fs::read_to_string(self.root.join("urls").join(key.to_string())).ok();
        text.and_then(|text| text.parse().ok()).or_else(|| self.second()?.known_at(key))
    }

    /// Remembers that.
    pub fn note_at(&self, key: &Digest, sha256: &Digest) {
        self.note(key, &sha256.to_string());
    }

    /// What was said of an address that has no file, if that was not longer ago.
    pub fn missing_at(&self, key: &Digest, not_before: Duration) -> Option<String> {
        if let Some(second) = self.second() {
            return second.missing_at(key, not_before);
        }
        let path = self.root.join("urls").join(key.to_string());
        let is_new = fs::metadata(&path).ok()?.modified().ok()?.elapsed().is_ok_and(|age| age < not_before);
        fs::read_to_string(path).ok().filter(|_| is_new)
    }

    /// Remembers that.
    pub fn note_missing(&self, key: &Digest, what: &str) {
        self.note(key, what);
    }

    /// The note of the last agent that waited for this file in vain.
    pub fn silence_at(&self, key: &Digest) -> Option<String> {
        if let Some(second) = self.second() {
            return second.silence_at(key);
        }
        fs::read_to_string(self.root.join("urls").join(key.to_string())).ok()
    }

    /// Remembers that.
    pub fn note_silence(&self, key: &Digest, text: &str) {
        self.note(key, text);
    }

    fn note(&self, key: &Digest, text: &str) {
        if let Some(second) = self.second() {
            return second.note(key, text);
        }
        let path = self.root.join("urls").join(key.to_string());
        let part = self.own.join(format!("url-{key}"));
        // Without it the file is fetched again.
        let _ = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // What stays is removed by the next agent.
        let _ = fs::remove_dir_all(&self.own);
        self.second.take();
        // Pilots of one allocation have one tag: the last of them removes it.
        if let Some(top) = &self.own_top {
            dead::remove_if_unused(&self.root, top);
        }
    }
}

impl FetchLock {
    /// Shows those who wait for it that its agent goes on.
    pub fn show_life(&self) {
        // Without it others do not wait for long.
        let _ = self.0.set_modified(SystemTime::now());
    }
}

impl Part {
    /// Takes some more.
    ///
    /// # Errors
    /// The disk fails or is full.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.n_bytes += bytes.len() as u64;
        Ok(())
    }

    /// How much came.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has another name if it is whole.
        let _ = fs::remove_file(&self.path);
    }
}

/// The file cannot have another name there: other file systems, and those that know no such names.
fn has_no_links(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | Unsupported)
}

/// Reads an object as a whole. One without the mark gets it if it is right and nobody has written to it meanwhile:
/// until then it has a time of its own, by which no other agent takes it for read.
fn is_right(file: &File, is_marked: bool, sha256: &Digest) -> io::Result<bool> {
    if is_marked {
        return Ok(hash_of(file)?.0 == *sha256);
    }
    let time = mark() - Duration::from_secs(1 + random() % MARK_S);
    // Whoever may not set it reads the object at each use.
    let _ = file.set_modified(time);
    let is_right = hash_of(file)?.0 == *sha256;
    if is_right && file.metadata()?.modified()? == time {
        let _ = file.set_modified(mark());
    }
    Ok(is_right)
}

/// Whether nobody has written to an object since it came, or to a copy of one that was given to a task.
pub(super) fn is_marked(facts: &fs::Metadata) -> bool {
    facts.modified().is_ok_and(|at| at == mark())
}

/// The time that says so.
pub(super) fn mark() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(MARK_S)
}

/// The SHA-256 of a file and its size.
///
/// # Errors
/// It cannot be read.
pub fn hash_of(mut file: &File) -> io::Result<(Digest, u64)> {
    let mut hash = sha256::begin();
    // Many files are small, and a large piece of memory costs more than to read them. Some say no size.
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

/// Held for moments: by who counts, removes, comes.
///
/// A thread that needs the cache's state, too, takes the state first: in the other order two threads would wait for
/// each other for ever.
fn lock_all(root: &Path) -> io::Result<File> {
    let file = private::file_options().write(true).open(root.join("lock"))?;
    private::lock_patiently(&file);
    Ok(file)
}

/// Counts objects, and if they are too many removes those without another name, the longest unused first,
/// until they have `n_kept_max` bytes. Says what there is of them then.
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
        // Whoever takes a name for it in this moment has it, under that name.
        if !is_used && fs::remove_file(&path).is_ok() {
            n_bytes -= size;
            n_objects -= 1;
        }
    }
    Count { n_bytes, n_objects, n_looks }
}

fn free_bytes(path: &Path) -> u64 {
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()) else { return 0 };
    // SAFETY: zeros are such a structure, and it is filled only if the call says so.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a path that ends with NUL, and a structure of ours.
    match unsafe { libc::statvfs(path.as_ptr(), &mut facts) } {
        0 => (facts.f_bavail as u64).saturating_mul(facts.f_frsize as u64),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
