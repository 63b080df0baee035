//! Stages input files in and output files out, on its own thread with its own event loop beside the pilot's
//! loop, so that no task waits for another task's files.
//!
//! The core decides which files are staged when. This module has the retries, the single fetch of a file for
//! many tasks, the limit of concurrent transfers, and the cache.

pub mod cache;
mod fetch;
mod held;
mod home;
mod left;
mod near;
mod others;
mod packed;
mod place;
mod silences;
mod transfer;
mod waits;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicBool},
    thread,
    time::Duration,
};

use protocol::{
    files::{
        objects::{TakenFile, TakenFrom, TakenPage},
        pack::N_PACKED_MAX,
    },
    job::{Source, TaskInput, TaskOutputFile, safe_relative},
};
use scheduler::{
    digest::Digest,
    ids::{JobId, PilotId, TaskId},
    pilot::{Hunted, ReadBy},
    pull::MovedBytes,
    ranges::TaskSet,
    results::{FailureKind, OutputFile},
};
use tokio::{
    sync::{Mutex as AsyncMutex, Semaphore, mpsc, oneshot},
    task::JoinHandle,
    time::sleep,
};

pub use self::transfer::Ways;
use self::{
    cache::{Cache, CachePlace, Pin},
    fetch::{MISSING_FOR, Turn},
    held::{Held, beside},
    home::Executables,
    transfer::trouble::Trouble,
    waits::Waits,
};
use crate::{
    node::limits::OwnRuntime,
    peers::{Directory, Host},
    session::client::{Client, backoff},
};

/// The most transfers at a time: enough to fill a node's link, and few enough to leave bandwidth to the
/// tasks.
const N_TRANSFERS: usize = 4;
/// The most files read or copied at a time on a node's own disks, and as many on shared file systems. Hashing
/// takes CPU time from tasks, and disks become slower with each file.
const N_AT_DISK: usize = 4;
/// Number of a task's inputs that are brought at a time, while earlier ones are put into the task's folder.
const N_INPUTS_AT_A_TIME: usize = 4 * N_PACKED_MAX;
/// Number of attempts of a transfer here before the task is to be retried elsewhere.
const N_TRIES: u32 = 4;
/// The name for files from other tasks, in messages.
const TAKEN: &str = "input from other tasks";
/// How long an agent that ends waits for work on a file: a piece of it may take long on a slow disk.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// An event of the stager.
#[derive(Debug)]
pub enum Moved {
    /// The input files are in the task's folder, or have failed.
    Staged { task: TaskId, token: u64, result: Result<(), FailureKind> },
    /// The output files are delivered, or have failed.
    Delivered { task: TaskId, token: u64, result: Result<Vec<OutputFile>, FailureKind> },
    /// The pilots that have the inputs of queued tasks.
    Seen { job: JobId, tasks: TaskSet, read: Vec<(u64, Vec<ReadBy>)>, bytes_per_s: u64 },
    /// The outcome of asking other pilots for tasks.
    Hunted(Hunted),
    /// Another pilot asks for tasks.
    AskedFor { thief: PilotId, answer: oneshot::Sender<u64> },
}

/// The inputs of a task.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The inputs that its job names.
    pub named: Vec<TaskInput>,
    /// Whether it also takes output files of other tasks, which the manager lists.
    pub takes: bool,
    /// The random number of its job: [`protocol::job::JobSpec::drawn`].
    pub drawn: u64,
}

/// The outputs of a task.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The output files.
    pub files: Vec<TaskOutputFile>,
    /// Whether other tasks take them, so that they also stay in the cache.
    pub is_taken: bool,
    /// Inputs in its folder that the task may not write to. A pattern leaves them out unless the task has
    /// changed them. Inputs that this pilot has brought need not be listed.
    pub brought: HashSet<PathBuf>,
    /// Writable copies of inputs that are not known to be executable. Pilots always give the owner execute
    /// permission on these copies, so the permission says nothing. Copies that this pilot has brought need
    /// not be listed.
    pub copied: HashSet<PathBuf>,
    /// Other inputs that are not known to be executable. A file that replaces one and has the cache's
    /// permissions, as after `sed -i`, has its execute permission from there.
    pub plain: HashSet<PathBuf>,
}

/// For each task the contents and sizes of its inputs.
pub type TasksRead = Vec<(u64, Vec<(Digest, u64)>)>;

/// The inputs of tasks that the manager has.
#[derive(Debug, Default)]
pub struct Reads {
    /// The inputs that their job names.
    pub named: TasksRead,
    /// Whether they also take output files of other tasks, which the manager lists.
    pub takes: bool,
}

/// The stager of one pilot.
#[derive(Debug)]
pub struct Stager {
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<thread::JoinHandle<()>>,
    who: Arc<Mutex<Who>>,
    moved: Arc<Sums>,
    peers: Option<(Arc<Directory>, Host)>,
}

/// The pilot's identity for the manager.
#[derive(Clone, Debug)]
struct Who {
    pilot: Option<PilotId>,
    session: String,
}

/// Bytes that were transferred, by job.
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
    /// Ends the work for a token; its files are no longer needed or wanted.
    Release {
        token: u64,
    },
}

/// The settings of a stager.
#[derive(Clone, Debug)]
pub struct StagerSettings {
    /// The manager's address.
    pub url: String,
    /// The fingerprint of the manager's certificate.
    pub certificate_sha256: Option<String>,
    /// The tag of the pilot's allocation.
    pub tag: String,
    /// The place of the cache.
    pub cache: CachePlace,
    /// The pilot's id for other pilots of its platform; `None`: it does not contact them.
    pub pilot: Option<PilotId>,
}

impl Stager {
    /// Starts the thread, which calls `tell` with its events.
    ///
    /// # Errors
    /// There is no thread left, the cache's folder cannot be used, or the address is invalid.
    pub fn start(
        settings: &StagerSettings,
        session: &str,
        tell: impl Fn(Moved) + Send + Sync + 'static,
    ) -> io::Result<Stager> {
        let who = Arc::new(Mutex::new(Who { pilot: settings.pilot, session: session.to_owned() }));
        let moved: Arc<Sums> = Arc::default();
        let ways = Ways::new(&settings.url, settings.certificate_sha256.as_deref())
            .map_err(|error| io::Error::other(error.to_string()))?;
        let cache = Arc::new(Cache::open_anywhere(&settings.cache)?);
        tracing::info!(folder = %settings.cache.folder.display(), bytes_max = cache.bytes_max(), "cache");
        let tell: Tell = Arc::new(tell);
        let client = settings.pilot.map(|_| near::client(settings)).transpose()?;
        // Without other pilots everything comes from the manager.
        let peers = near::join(settings, session, &cache, &tell).unwrap_or_else(|error| {
            tracing::warn!(%error, "no files from other pilots, nor for them");
            None
        });
        let near = peers.as_ref().zip(client.as_ref());
        let near = near.map(|((directory, _), client)| (Arc::clone(directory), client.clone()));
        let mover = Arc::new(Mover {
            cache,
            ways,
            near,
            client,
            family: family_of(&settings.tag).to_owned(),
            who: Arc::clone(&who),
            moved: Arc::clone(&moved),
            places: Semaphore::new(N_TRANSFERS),
            disks: Arc::new(Semaphore::new(N_AT_DISK)),
            shares: Arc::new(Semaphore::new(N_AT_DISK)),
            turns: Mutex::default(),
            looked_into: Arc::default(),
            missing_for: MISSING_FOR,
            waits: Waits::default(),
            executables: Arc::default(),
            packing: AsyncMutex::default(),
            is_full_told: AtomicBool::new(false),
            tell,
        });
        let runtime = OwnRuntime::new()?;
        let (orders, orders_in) = mpsc::unbounded_channel();
        let thread = thread::Builder::new().name("pilotfish-files".into()).spawn(move || {
            runtime.block_on(serve(mover, orders_in));
            runtime.end(SHUTDOWN);
        })?;
        Ok(Stager { orders: Some(orders), thread: Some(thread), who, moved, peers })
    }

    /// Returns the bytes transferred since the last call, by job.
    pub fn take_moved(&self) -> Vec<(JobId, MovedBytes)> {
        std::mem::take(&mut *lock(&self.moved)).into_iter().collect()
    }

    /// Sets the session of the pilot.
    pub fn set_session(&self, pilot: PilotId, session: &str) {
        *lock(&self.who) = Who { pilot: Some(pilot), session: session.to_owned() };
        if let Some((directory, _)) = &self.peers {
            directory.set_session(pilot, session);
        }
    }

    /// Brings a task's input files into its folder.
    pub fn stage(&self, task: TaskId, token: u64, inputs: Inputs, folder: PathBuf) {
        self.order(Order::Stage { task, token, inputs, folder });
    }

    /// Delivers a task's output files from its folder.
    pub fn deliver(&self, task: TaskId, token: u64, outputs: Outputs, folder: PathBuf) {
        self.order(Order::Deliver { task, token, outputs, folder });
    }

    /// Finds out which pilots have the inputs of these tasks.
    pub fn look(&self, job: JobId, tasks: TaskSet, reads: Reads) {
        self.order(Order::Look { job, tasks, reads });
    }

    /// Asks other pilots for tasks.
    pub fn hunt(&self) {
        self.order(Order::Hunt);
    }

    /// Sets the number of tasks that other pilots may take here.
    pub fn set_n_to_take(&self, n: u64) {
        if let Some((directory, _)) = &self.peers {
            directory.set_n_to_take(n);
        }
    }

    /// Ends the work for this token, and releases its files in the cache.
    pub fn release(&self, token: u64) {
        self.order(Order::Release { token });
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // The thread ends only after all orders.
            let _ = orders.send(order);
        }
    }
}

impl Drop for Stager {
    fn drop(&mut self) {
        self.peers = None;
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // After a panic the next agent removes its leftovers.
            let _ = thread.join();
        }
    }
}

/// The held files of each token, with the work for it.
type Works = HashMap<u64, (Arc<Held>, JoinHandle<()>)>;

async fn serve(mover: Arc<Mover>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut works: Works = HashMap::new();
    let teller = Arc::clone(&mover);
    tokio::spawn(async move { teller.tell_waits().await });
    while let Some(order) = orders.recv().await {
        match order {
            Order::Stage { task, token, inputs, folder } => {
                let held = Arc::new(Held::new(&mover.cache).of(task).for_folder(&folder).drawn(inputs.drawn));
                let (mover, its) = (Arc::clone(&mover), Arc::clone(&held));
                let work = tokio::spawn(async move {
                    let result = mover.stage(task, &inputs, &folder, &its).await;
                    (mover.tell)(Moved::Staged { task, token, result });
                });
                works.insert(token, (held, work));
            }
            Order::Deliver { task, token, mut outputs, folder } => {
                let of_folder = works.values().filter(|(held, _)| held.folder() == Some(&folder));
                of_folder.for_each(|(held, _)| held.add_inputs(&mut outputs));
                let held = Arc::new(Held::new(&mover.cache).of(task));
                let (mover, its) = (Arc::clone(&mover), Arc::clone(&held));
                let work = tokio::spawn(async move {
                    let result = mover.deliver(task.job, &outputs, &folder, &its).await;
                    (mover.tell)(Moved::Delivered { task, token, result });
                });
                works.insert(token, (held, work));
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
                let Some((held, work)) = works.remove(&token) else { continue };
                held.end();
                work.abort();
                // It ends at its next pause. Blocking work on a file for it keeps the pins until it stops.
                let _ = work.await;
            }
        }
    }
    works.values().for_each(|(held, _)| held.end());
}

struct Mover {
    cache: Arc<Cache>,
    ways: Ways,
    /// The directory of the platform's other pilots, and the client for it.
    near: Option<(Arc<Directory>, Client)>,
    /// The client by which the manager asks other pilots, for a pilot that they may know.
    client: Option<Client>,
    /// See [`family_of`].
    family: String,
    who: Arc<Mutex<Who>>,
    places: Semaphore,
    /// Limits for reading or copying files on this node's disks, and on shared file systems, which may be
    /// slow: neither delays transfers, nor the other one.
    disks: Arc<Semaphore>,
    shares: Arc<Semaphore>,
    /// The current fetch of each object, as long as any task of this agent wants it.
    turns: Mutex<HashMap<Digest, Weak<Turn>>>,
    /// Shared folders that were searched for leftovers of killed agents.
    looked_into: Arc<Mutex<HashSet<PathBuf>>>,
    /// See [`MISSING_FOR`].
    missing_for: Duration,
    waits: Waits,
    executables: Arc<Mutex<Executables>>,
    /// Held while packs are fetched.
    packing: AsyncMutex<()>,
    /// Whether the message that the manager has no room was logged; once is enough.
    is_full_told: AtomicBool,
    moved: Arc<Sums>,
    tell: Tell,
}

type Tell = Arc<dyn Fn(Moved) + Send + Sync>;

/// Returns the beginning of a tag, which all pilots of one manager's store share, and pilots of other stores
/// do not. A job id is unique only together with it. It does not change when the manager restarts, even at
/// another address.
pub(crate) fn family_of(tag: &str) -> &str {
    tag.rsplit_once('-').map_or(tag, |(family, _)| family)
}

impl Mover {
    fn session(&self) -> String {
        lock(&self.who).session.clone()
    }

    async fn stage(
        &self,
        task: TaskId,
        inputs: &Inputs,
        folder: &Path,
        held: &Arc<Held>,
    ) -> Result<(), FailureKind> {
        self.stage_some(task.job, &inputs.named, folder, held).await?;
        let mut next = inputs.takes.then(TakenFrom::default);
        while let Some(from) = next {
            let page = self.page_of_taken(task, from).await?;
            let taken: Result<Vec<TaskInput>, FailureKind> = page.files.into_iter().map(input_of).collect();
            self.stage_some(task.job, &taken?, folder, held).await?;
            next = page.next;
        }
        Ok(())
    }

    /// Returns the next page of the files that a task takes from other tasks, as the manager lists them.
    async fn page_of_taken(&self, task: TaskId, from: TakenFrom) -> Result<TakenPage, FailureKind> {
        let (mut n_failed, mut n_away) = (0, 0);
        loop {
            let asked = {
                // The semaphore is never closed.
                let _place = self.places.acquire().await;
                self.ways.taken(&self.session(), task, from).await
            };
            match asked {
                Ok(page) => return Ok(page),
                Err(Trouble::Away(what) | Trouble::Full(what)) => {
                    n_away += 1;
                    tracing::debug!(what, %task, "its files wait for the manager");
                    sleep(backoff(n_away)).await;
                }
                Err(Trouble::Lasting(what) | Trouble::Missing(what)) => {
                    return Err(transfer(TAKEN, &what));
                }
                Err(Trouble::Disk(error)) => return Err(node(TAKEN, &error)),
                Err(Trouble::Brief(what) | Trouble::Silent { what, .. }) => {
                    n_failed += 1;
                    if n_failed >= N_TRIES {
                        return Err(transfer(TAKEN, &what));
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
        held: &Arc<Held>,
    ) -> Result<(), FailureKind> {
        for input in inputs {
            input.sha256.into_iter().for_each(|sha256| self.note_input(sha256, input, held));
        }
        let mut portions = inputs.chunks(N_INPUTS_AT_A_TIME);
        let mut next = portions.next();
        let mut came = self.bring_small(job, next.unwrap_or_default(), held).await;
        while let Some(some) = next {
            next = portions.next();
            // The next files are fetched meanwhile.
            let (is_given, coming) = tokio::join!(
                self.give_small(job, some, came, folder, held),
                self.bring_small(job, next.unwrap_or_default(), held)
            );
            let is_given = is_given?;
            came = coming;
            let others = some.iter().zip(is_given).filter(|(_, is_given)| !is_given);
            self.stage_one_by_one(job, others.map(|(input, _)| input), folder, held).await?;
        }
        Ok(())
    }

    async fn stage_one_by_one<'i>(
        &self,
        job: JobId,
        inputs: impl Iterator<Item = &'i TaskInput>,
        folder: &Path,
        held: &Arc<Held>,
    ) -> Result<(), FailureKind> {
        for input in inputs {
            let target = folder.join(&input.to);
            if input.source == Source::Shared {
                let shown = protocol::net::address::shown(&input.from);
                let _waits = self.waits.begin(held.task(), &shown, None);
                let shared = self.share(PathBuf::from(&input.from), target).await;
                shared.map_err(|error| transfer(&input.shown(), &error.to_string()))?;
                continue;
            }
            let pin = self.bring(job, input, held).await?;
            self.note_input(pin.sha256, input, held);
            let placed = self.place(pin, target, input.writable, held).await;
            placed.map_err(|error| {
                let which = input.shown();
                match error.kind() {
                    io::ErrorKind::AlreadyExists => transfer(&which, "it comes a second time"),
                    _ => node(&which, &error),
                }
            })?;
        }
        Ok(())
    }

    /// Notes an input's contents and permissions, for a later delivery of it, of a copy, or of its
    /// replacement.
    fn note_input(&self, sha256: Digest, input: &TaskInput, held: &Held) {
        lock(&self.executables).note(sha256, input.executable);
        held.note_input(input);
    }

    /// Links a file of a shared file system into a task's folder.
    async fn share(&self, path: PathBuf, target: PathBuf) -> io::Result<()> {
        beside(Some(&self.shares), move || place::share(&path, &target)).await
    }

    /// Puts a file of the cache into a task's folder; if the disk is full, first drops unused objects.
    async fn place(&self, pin: Pin, target: PathBuf, is_writable: bool, held: &Arc<Held>) -> io::Result<()> {
        let (cache, held) = (Arc::clone(&self.cache), Arc::clone(held));
        let put = move || match is_writable {
            true => place::copy(&pin.path, &target, held.stop()),
            false => {
                place::give(&pin.path, &target, held.stop(), |from, to| place::link(from, to, held.stop()))
            }
        };
        let work = move || {
            put().or_else(|error| {
                if !is_full(&error) {
                    return Err(error);
                }
                cache.drop_unused();
                put()
            })
        };
        // A hard link takes no time.
        beside(is_writable.then_some(&self.disks), work).await
    }

    fn has_moved(&self, job: JobId, add: impl FnOnce(&mut MovedBytes)) {
        add(lock(&self.moved).entry(job).or_default());
    }
}

/// Returns the input for a file of another task from the manager's list. Refuses paths outside of the task's
/// folder.
fn input_of(file: TakenFile) -> Result<TaskInput, FailureKind> {
    let TakenFile { to, sha256, bytes, writable, executable } = file;
    let name = safe_relative(&to)
        .ok_or_else(|| transfer(&format!("input {to}"), "it is outside of the task's folder"))?;
    Ok(TaskInput {
        to: name,
        from: to,
        source: Source::Home,
        sha256: Some(sha256),
        bytes: Some(bytes),
        writable,
        executable,
    })
}

/// Locks a mutex even after a panic: its holder had not begun to change the value.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns the failure of a transfer, which is not the node's fault.
fn transfer(which: &str, what: &str) -> FailureKind {
    FailureKind::Transfer { what: format!("{which}: {what}") }
}

/// Returns a failure that is this node's fault.
fn node(which: &str, error: &io::Error) -> FailureKind {
    FailureKind::Node { what: format!("{which}: {error}") }
}

/// Returns the failure for an unreadable output: the program's fault if it has removed the permission.
fn unread(which: &str, error: &io::Error) -> FailureKind {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            FailureKind::OutputMissing { file: format!("{which} so that it can be read (permission denied)") }
        }
        _ => node(which, error),
    }
}

#[cfg(test)]
mod tests;
