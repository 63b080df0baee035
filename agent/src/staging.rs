//! Brings files that tasks need and delivers those that they leave, beside the pilot's loop: on a thread of
//! its own with a loop of its own, so that no task waits for another one's files.
//!
//! Nothing here decides which files are brought when: the core does. Here are the tries, the one fetch of what
//! many tasks wait for, the bound on transfers at a time, and the cache.

pub mod cache;
mod home;
mod near;
mod place;
mod transfer;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use protocol::{
    job::{Source, TaskInput, TaskOutputFile, safe_relative},
    objects::{TakenFile, TakenFrom, TakenPage},
};
use scheduler::{
    digest::Digest,
    ids::{JobId, PilotId, TaskId},
    pilot::ReadBy,
    pull::MovedBytes,
    ranges::TaskSet,
    results::{FailureKind, OutputFile},
};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore, mpsc, oneshot},
    task::JoinHandle,
    time::sleep,
};

pub use self::transfer::Ways;
use self::{
    cache::{Cache, CachePlace, FetchLock, Pin},
    transfer::Trouble,
};
use crate::{
    client::{Client, backoff},
    peers::{Directory, Host, Origin},
    sha256,
};

/// Transfers at a time: enough to fill a node's line, too few to take it from what tasks do themselves.
const N_TRANSFERS: usize = 4;
/// How often a transfer is tried here before the task is to be tried elsewhere.
const N_TRIES: u32 = 4;
/// How often it is looked whether another agent has fetched what is wanted.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// What became of a task's files.
#[derive(Debug)]
pub enum Moved {
    /// They are in its folder, or will not be.
    Staged { task: TaskId, token: u64, result: Result<(), FailureKind> },
    /// They are where they go, or will not be.
    Delivered { task: TaskId, token: u64, result: Result<Vec<OutputFile>, FailureKind> },
    /// Who has what queued tasks read.
    Seen { job: JobId, tasks: TaskSet, read: Vec<(u64, Vec<ReadBy>)>, bytes_per_s: u64 },
    /// Others were asked for tasks, and so many are on their way.
    Hunted { n_tasks: u64 },
    /// Another pilot asks for tasks.
    AskedFor { thief: PilotId, answer: oneshot::Sender<u64> },
}

/// What a task needs.
#[derive(Debug, Default)]
pub struct Inputs {
    /// What its job names.
    pub named: Vec<TaskInput>,
    /// It takes what other tasks have left, too: the manager says what.
    pub takes: bool,
}

/// What a task leaves.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Which files.
    pub files: Vec<TaskOutputFile>,
    /// Other tasks take them: they stay here, too.
    pub is_taken: bool,
}

/// Of each task contents and bytes of what it reads.
pub type TasksRead = Vec<(u64, Vec<(Digest, u64)>)>;

/// What tasks read that the manager has.
#[derive(Debug, Default)]
pub struct Reads {
    /// What their job names.
    pub named: TasksRead,
    /// They take what other tasks have left, too: the manager says what.
    pub takes: bool,
}

/// Who brings and delivers, for one pilot.
#[derive(Debug)]
pub struct Stager {
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<thread::JoinHandle<()>>,
    session: Arc<Mutex<String>>,
    moved: Arc<Sums>,
    peers: Option<(Arc<Directory>, Host)>,
}

/// Bytes that have moved, by job.
type Sums = Mutex<BTreeMap<JobId, MovedBytes>>;

#[derive(Debug)]
enum Order {
    Stage {
        task: TaskId,
        token: u64,
        inputs: Inputs,
        folder: PathBuf,
    },
    Deliver {
        task: TaskId,
        token: u64,
        outputs: Outputs,
        folder: PathBuf,
    },
    Look {
        job: JobId,
        tasks: TaskSet,
        reads: Reads,
    },
    Hunt,
    /// The files of that token are not needed any more, or not wanted.
    Release {
        token: u64,
    },
}

/// What a stager is told at its start.
#[derive(Clone, Debug)]
pub struct StagerSettings {
    /// The manager.
    pub url: String,
    /// Its certificate.
    pub certificate_sha256: Option<String>,
    /// The cache.
    pub cache: CachePlace,
    /// Who this pilot is for others of its platform; `None`: it has nothing to do with them.
    pub pilot: Option<PilotId>,
}

impl Stager {
    /// Starts the thread. `tell` is called from it.
    ///
    /// # Errors
    /// No thread is left, the cache's folder cannot be used, or the address is none.
    pub fn start(
        settings: &StagerSettings,
        session: &str,
        tell: impl Fn(Moved) + Send + Sync + 'static,
    ) -> io::Result<Stager> {
        let session = Arc::new(Mutex::new(session.to_owned()));
        let moved: Arc<Sums> = Arc::default();
        let ways = Ways::new(&settings.url, settings.certificate_sha256.as_deref())
            .map_err(|error| io::Error::other(error.to_string()))?;
        let cache = Arc::new(Cache::open(&settings.cache)?);
        tracing::info!(folder = %settings.cache.folder.display(), bytes_max = cache.bytes_max(), "cache");
        // Without others all comes from the manager.
        let tell: Tell = Arc::new(tell);
        let peers = near::join(settings, &lock(&session), &cache, &tell).unwrap_or_else(|error| {
            tracing::warn!(%error, "no files from other pilots, nor for them");
            None
        });
        let near = peers.as_ref().map(|(directory, client, _)| (Arc::clone(directory), client.clone()));
        let mover = Arc::new(Mover {
            cache,
            ways,
            near,
            url: settings.url.clone(),
            session: Arc::clone(&session),
            moved: Arc::clone(&moved),
            places: Semaphore::new(N_TRANSFERS),
            fetches: Mutex::default(),
            tell,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (orders, orders_in) = mpsc::unbounded_channel();
        let thread = thread::Builder::new()
            .name("pilotfish-files".into())
            .spawn(move || runtime.block_on(serve(mover, orders_in)))?;
        let peers = peers.map(|(directory, _, host)| (directory, host));
        Ok(Stager { orders: Some(orders), thread: Some(thread), session, moved, peers })
    }

    /// Bytes that have moved since this was asked last, by job.
    pub fn take_moved(&self) -> Vec<(JobId, MovedBytes)> {
        std::mem::take(&mut *lock(&self.moved)).into_iter().collect()
    }

    /// The pilot has a new session.
    pub fn set_session(&self, pilot: PilotId, session: &str) {
        session.clone_into(&mut lock(&self.session));
        if let Some((directory, _)) = &self.peers {
            directory.set_session(pilot, session);
        }
    }

    /// Brings files into a task's folder.
    pub fn stage(&self, task: TaskId, token: u64, inputs: Inputs, folder: PathBuf) {
        self.order(Order::Stage { task, token, inputs, folder });
    }

    /// Delivers files out of a task's folder.
    pub fn deliver(&self, task: TaskId, token: u64, outputs: Outputs, folder: PathBuf) {
        self.order(Order::Deliver { task, token, outputs, folder });
    }

    /// Finds out who has what these tasks read.
    pub fn look(&self, job: JobId, tasks: TaskSet, reads: Reads) {
        self.order(Order::Look { job, tasks, reads });
    }

    /// Asks other pilots for tasks.
    pub fn hunt(&self) {
        self.order(Order::Hunt);
    }

    /// Others may take so many tasks here.
    pub fn set_n_to_take(&self, n: u64) {
        if let Some((directory, _)) = &self.peers {
            directory.set_n_to_take(n);
        }
    }

    /// Ends what is done for this token, and keeps nothing in the cache for it any more.
    pub fn release(&self, token: u64) {
        self.order(Order::Release { token });
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // The thread ends only after the orders do.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Stager {
    fn drop(&mut self) {
        self.peers = None;
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, the next agent removes what it left.
            let _ = thread.join();
        }
    }
}

/// Pins of a token, and who works for it.
type Works = HashMap<u64, (Arc<Mutex<Vec<Pin>>>, JoinHandle<()>)>;

async fn serve(mover: Arc<Mover>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut works: Works = HashMap::new();
    while let Some(order) = orders.recv().await {
        match order {
            Order::Stage { task, token, inputs, folder } => {
                let pins = Arc::new(Mutex::new(Vec::new()));
                let (mover, held) = (Arc::clone(&mover), Arc::clone(&pins));
                let work = tokio::spawn(async move {
                    let result = mover.stage(task, &inputs, &folder, &held).await;
                    (mover.tell)(Moved::Staged { task, token, result });
                });
                works.insert(token, (pins, work));
            }
            Order::Deliver { task, token, outputs, folder } => {
                let mover = Arc::clone(&mover);
                let work = tokio::spawn(async move {
                    let result = mover.deliver(task.job, &outputs, &folder).await;
                    (mover.tell)(Moved::Delivered { task, token, result });
                });
                works.insert(token, (Arc::default(), work));
            }
            Order::Look { job, tasks, reads } => {
                let mover = Arc::clone(&mover);
                tokio::spawn(async move { mover.look(job, tasks, reads).await });
            }
            Order::Hunt => {
                let mover = Arc::clone(&mover);
                tokio::spawn(async move { mover.hunt().await });
            }
            Order::Release { token } => {
                let Some((pins, work)) = works.remove(&token) else { continue };
                work.abort();
                // It ends at its next pause: none of its steps is under way after this.
                let _ = work.await;
                let pins = std::mem::take(&mut *pins.lock().unwrap_or_else(PoisonError::into_inner));
                pins.iter().for_each(|pin| mover.cache.unpin(&pin.sha256));
            }
        }
    }
}

struct Mover {
    cache: Arc<Cache>,
    ways: Ways,
    /// The others of the platform, and the way to hear of them.
    near: Option<(Arc<Directory>, Client)>,
    url: String,
    session: Arc<Mutex<String>>,
    places: Semaphore,
    /// One fetch at a time of each object, in this agent.
    fetches: Mutex<HashMap<Digest, Arc<AsyncMutex<()>>>>,
    moved: Arc<Sums>,
    tell: Tell,
}

type Tell = Arc<dyn Fn(Moved) + Send + Sync>;

impl Mover {
    fn session(&self) -> String {
        lock(&self.session).clone()
    }

    async fn stage(
        &self,
        task: TaskId,
        inputs: &Inputs,
        folder: &Path,
        pins: &Mutex<Vec<Pin>>,
    ) -> Result<(), FailureKind> {
        self.stage_some(task.job, &inputs.named, folder, pins).await?;
        let mut next = inputs.takes.then(TakenFrom::default);
        while let Some(from) = next {
            let page = self.page_of_taken(task, from).await?;
            let taken: Result<Vec<TaskInput>, FailureKind> = page.files.into_iter().map(input_of).collect();
            self.stage_some(task.job, &taken?, folder, pins).await?;
            next = page.next;
        }
        Ok(())
    }

    /// What the manager says that a task takes of what others have left.
    async fn page_of_taken(&self, task: TaskId, from: TakenFrom) -> Result<TakenPage, FailureKind> {
        let (mut n_failed, mut n_away) = (0, 0);
        loop {
            let asked = {
                // It is never closed.
                let _place = self.places.acquire().await;
                self.ways.taken(&self.session(), task, from).await
            };
            match asked {
                Ok(page) => return Ok(page),
                Err(Trouble::Away(what)) => {
                    n_away += 1;
                    tracing::debug!(what, %task, "its files wait for the manager");
                    sleep(backoff(n_away)).await;
                }
                Err(Trouble::Lasting(what)) => return Err(FailureKind::Transfer { what }),
                Err(Trouble::Disk(error)) => return Err(node("what it takes", &error)),
                Err(Trouble::Brief(what)) => {
                    n_failed += 1;
                    if n_failed >= N_TRIES {
                        return Err(FailureKind::Transfer { what });
                    }
                    sleep(backoff(n_failed + 2)).await;
                }
            }
        }
    }

    async fn stage_some(
        &self,
        job: JobId,
        inputs: &[TaskInput],
        folder: &Path,
        pins: &Mutex<Vec<Pin>>,
    ) -> Result<(), FailureKind> {
        for input in inputs {
            let target = folder.join(&input.to);
            if input.source == Source::Shared {
                place::share(Path::new(&input.from), &target)
                    .map_err(|error| transfer(&input.from, &error.to_string()))?;
                continue;
            }
            let pin = self.bring(job, input, pins).await?;
            let place = || match input.writable {
                true => place::copy(&pin.path, &target),
                false => place::link(&pin.path, &target),
            };
            let placed = place().or_else(|error| {
                if !is_full(&error) {
                    return Err(error);
                }
                self.cache.drop_unused();
                // Half a copy is none; if there is none it cannot be removed.
                let _ = std::fs::remove_file(&target);
                place()
            });
            placed.map_err(|error| {
                let shown = input.to.to_string_lossy();
                match error.kind() {
                    io::ErrorKind::AlreadyExists => transfer(&shown, "it comes a second time"),
                    _ => node(&shown, &error),
                }
            })?;
        }
        Ok(())
    }

    /// The object of an input, pinned; tries several times.
    async fn bring(&self, job: JobId, input: &TaskInput, pins: &Mutex<Vec<Pin>>) -> Result<Pin, FailureKind> {
        // What an address holds may change from job to job, not for the tasks of one.
        let key = match input.sha256 {
            Some(sha256) => sha256,
            None => sha256::of(format!("{} {job} {}", self.url, input.from).as_bytes()),
        };
        let (mut n_failed, mut n_away, mut was_full) = (0, 0, false);
        loop {
            let trouble = match self.try_once(job, input, &key, pins).await {
                Ok(pin) => return Ok(pin),
                Err(trouble) => trouble,
            };
            match trouble {
                Trouble::Away(what) => {
                    n_away += 1;
                    tracing::debug!(what, from = input.from, "a file waits for the manager");
                    sleep(backoff(n_away)).await;
                    continue;
                }
                Trouble::Lasting(what) => return Err(transfer(&input.from, &what)),
                Trouble::Disk(error) if was_full || !is_full(&error) => {
                    return Err(node(&input.from, &error));
                }
                Trouble::Disk(_) => {
                    was_full = true;
                    self.cache.drop_unused();
                }
                Trouble::Brief(what) => {
                    n_failed += 1;
                    tracing::warn!(what, from = input.from, n_failed, "a file could not be brought");
                    if n_failed >= N_TRIES {
                        return Err(transfer(&input.from, &what));
                    }
                    sleep(backoff(n_failed + 2)).await;
                }
            }
        }
    }

    fn has_moved(&self, job: JobId, add: impl FnOnce(&mut MovedBytes)) {
        add(self.moved.lock().unwrap_or_else(PoisonError::into_inner).entry(job).or_default());
    }

    async fn try_once(
        &self,
        job: JobId,
        input: &TaskInput,
        key: &Digest,
        pins: &Mutex<Vec<Pin>>,
    ) -> Result<Pin, Trouble> {
        let found = |pin: Pin| {
            self.has_moved(job, |moved| moved.cached += size_of_pinned(&pin));
            pin
        };
        let _turn = self.turn(key).await;
        if let Some(pin) = self.known(input, key, pins)? {
            self.note_here(&pin.sha256, input.bytes);
            return Ok(found(pin));
        }
        let _lock = self.lock(key).await?;
        // Another agent may have fetched it meanwhile.
        if let Some(pin) = self.known(input, key, pins)? {
            return Ok(found(pin));
        }
        let is_of_manager = !matches!(input.source, Source::Url | Source::Store);
        if let Some(sha256) = input.sha256.filter(|_| is_of_manager)
            && self.came_from_near(&sha256, input.bytes.unwrap_or(0)).await.map_err(Trouble::Disk)?
            && let Some(pin) = self.pinned(&sha256, pins)?
        {
            self.has_moved(job, |moved| moved.from_peers += size_of_pinned(&pin));
            return Ok(pin);
        }
        // It is never closed.
        let _place = self.places.acquire().await;
        let fetching = self.near.as_ref().zip(input.sha256).map(|((near, _), sha256)| near.fetching(&sha256));
        let part = match (input.source, input.sha256) {
            (Source::Url, _) => self.ways.object_at(&input.from, &self.cache).await?,
            (Source::Store, _) => {
                self.ways.object_in_store(&self.session(), (job, &input.from), &self.cache).await?
            }
            (_, Some(sha256)) => {
                let (session, n_expected) = (self.session(), input.bytes.unwrap_or(0));
                self.ways.object_of_manager(&session, &sha256, &self.cache, n_expected).await?
            }
            (_, None) => return Err(Trouble::Lasting("the job does not say what it holds".to_owned())),
        };
        let finished = self.cache.finish(part, input.sha256.as_ref()).map_err(Trouble::Disk)?;
        let (sha256, n_bytes) = finished
            .map_err(|found| Trouble::Brief(format!("what came has the SHA-256 {found}, {key} is right")))?;
        self.has_moved(job, |moved| match input.source {
            Source::Url | Source::Store => moved.from_urls += n_bytes,
            Source::Home | Source::Shared | Source::Tasks => moved.from_manager += n_bytes,
        });
        if is_of_manager {
            self.note_came(Origin::Manager, &sha256, n_bytes);
        }
        drop(fetching);
        if input.sha256.is_none() {
            self.cache.note_at(key, &sha256);
        }
        let pin = self.pinned(&sha256, pins)?;
        pin.ok_or_else(|| Trouble::Brief("it was removed from the cache at once".to_owned()))
    }

    fn known(&self, input: &TaskInput, key: &Digest, pins: &Mutex<Vec<Pin>>) -> Result<Option<Pin>, Trouble> {
        match input.sha256.or_else(|| self.cache.known_at(key)) {
            Some(sha256) => self.pinned(&sha256, pins),
            None => Ok(None),
        }
    }

    fn pinned(&self, sha256: &Digest, pins: &Mutex<Vec<Pin>>) -> Result<Option<Pin>, Trouble> {
        let pin = self.cache.pin(sha256).map_err(Trouble::Disk)?;
        pins.lock().unwrap_or_else(PoisonError::into_inner).extend(pin.clone());
        Ok(pin)
    }

    /// One at a time of this agent.
    async fn turn(&self, key: &Digest) -> OwnedMutexGuard<()> {
        let turn = {
            let mut fetches = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
            fetches.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(fetches.entry(*key).or_default())
        };
        turn.lock_owned().await
    }

    /// One at a time of this node.
    async fn lock(&self, key: &Digest) -> Result<FetchLock, Trouble> {
        loop {
            if let Some(lock) = self.cache.try_lock(key).map_err(Trouble::Disk)? {
                return Ok(lock);
            }
            sleep(LOCK_PAUSE).await;
        }
    }
}

/// A file that another task has left, from the manager. Whatever that says, nothing is written outside of the folder.
fn input_of(file: TakenFile) -> Result<TaskInput, FailureKind> {
    let TakenFile { to, sha256, bytes, writable } = file;
    let name = safe_relative(&to).ok_or_else(|| transfer(&to, "it is outside of the task's folder"))?;
    Ok(TaskInput {
        to: name,
        from: to,
        source: Source::Home,
        sha256: Some(sha256),
        bytes: Some(bytes),
        writable,
    })
}

/// What is pinned does not go.
fn size_of_pinned(pin: &Pin) -> u64 {
    std::fs::metadata(&pin.path).map_or(0, |facts| facts.len())
}

/// Whoever panicked with it had not begun to change it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What others are to be blamed for.
fn transfer(which: &str, what: &str) -> FailureKind {
    FailureKind::Transfer { what: format!("{which}: {what}") }
}

/// What this node is to be blamed for.
fn node(which: &str, error: &io::Error) -> FailureKind {
    FailureKind::Node { what: format!("{which}: {error}") }
}

#[cfg(test)]
mod tests;
