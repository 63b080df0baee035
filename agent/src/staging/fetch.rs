//! Brings files into the cache: from the cache itself, from another pilot, from the manager, or from an
//! address. All waiting tasks share one fetch, in this agent and on this node.

use std::{
    io,
    pin::pin,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use protocol::{
    job::{Source, TaskInput},
    net::address::shown,
};
use scheduler::{
    digest::Digest,
    ids::{JobId, TaskId},
    results::FailureKind,
};
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{sleep, timeout},
};

use super::{
    Mover, N_TRIES,
    cache::{FetchLock, Part, Pin},
    held::{Held, beside},
    is_full, lock, node,
    others::Others,
    transfer,
    transfer::{Download, N_SILENT_MAX, Partial, trouble::Trouble},
    waits::Progress,
};
use crate::{peers::Origin, session::client::backoff, sys::sha256};

/// Interval between looks whether another agent has fetched the file.
pub(super) const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Time after which the holder of a fetch lock that shows no life counts as stuck; other agents stop waiting.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(30);
/// Interval at which the holder shows life.
const LIFE_PERIOD: Duration = Duration::from_secs(5);
/// An attempt that brought this much more does not count as failed: servers of large files may break off
/// often.
const PROGRESS_BYTES: u64 = 1 << 20;
/// Time after which a missing file is asked for again: it may have been put there since, for a retry of
/// failed tasks.
pub(super) const MISSING_FOR: Duration = Duration::from_secs(10);

/// The part of a file before a broken transfer, and its progress.
type SoFar<'f> = (&'f mut Option<Partial>, &'f Progress);

/// The attempts to bring one object from one place, one after another, for all tasks of this agent that wait
/// for it. A result counts for all of them; otherwise a silent server would cost each task all attempts.
#[derive(Default)]
pub(super) struct Turn(AsyncMutex<Tries>);

#[derive(Default)]
struct Tries {
    partial: Option<Partial>,
    /// The most bytes at the end of any attempt.
    n_bytes_most: u64,
    n_failed: u32,
    n_silent: u32,
    /// When the object was given up, and why.
    given_up: Option<(Instant, String)>,
}

impl Tries {
    /// Returns the reason if the object was given up since `began_at`.
    fn given_up_since(&self, began_at: Instant) -> Option<&str> {
        self.given_up.as_ref().filter(|(at, _)| *at > began_at).map(|(_, why)| why.as_str())
    }

    /// Notes a failed attempt; it resets the counts if it brought more than all before it. Otherwise a server
    /// that breaks off and sends another version each time would be asked for ever.
    fn note_try(&mut self) {
        let n_bytes = self.partial.as_ref().map_or(0, Partial::n_bytes);
        if n_bytes >= self.n_bytes_most + PROGRESS_BYTES {
            (self.n_failed, self.n_silent) = (0, 0);
        }
        self.n_bytes_most = n_bytes.max(self.n_bytes_most);
    }

    /// Gives up: all tasks that wait now fail with `what`; a later task tries again.
    fn give_up(&mut self, what: String) {
        *self = Tries { given_up: Some((Instant::now(), what)), ..Tries::default() };
    }
}

impl Mover {
    /// Returns the pinned object of an input; makes several attempts.
    pub(super) async fn bring(
        &self,
        job: JobId,
        input: &TaskInput,
        held: &Arc<Held>,
    ) -> Result<Pin, FailureKind> {
        // All tasks of a job get the same contents of an address; another job may get newer ones. A cache may
        // outlive the manager's store, and the next store may have the same job ids at the same address.
        let key = match input.sha256 {
            Some(sha256) => sha256,
            None => {
                let job = held.name_of(job);
                sha256::of(format!("{} {job} {}", self.family, input.from).as_bytes())
            }
        };
        // Two servers may have the same file, and only one of them may be silent.
        let turn_key = match is_elsewhere(input) {
            true => sha256::of(format!("{key} {}", input.from).as_bytes()),
            false => key,
        };
        let (from, which) = (shown(&input.from), input.shown());
        let waits = self.waits.begin(held.task(), &from, Some(&turn_key));
        let progress = &waits.progress;
        let began_at = Instant::now();
        let place = format!("silent {} {} {}", self.family, held.name_of(job), input.from);
        let mut others = Others::new(sha256::of(place.as_bytes()));
        let turn = self.turn(&turn_key);
        let mut tries = turn.0.lock().await;
        let (mut n_away, mut n_full) = (0, 0);
        if let Some(what) = tries.given_up_since(began_at) {
            return Err(transfer(&which, what));
        }
        loop {
            let so_far: SoFar<'_> = (&mut tries.partial, progress);
            let trouble = match self.try_once(job, input, &key, held, (so_far, &mut others)).await {
                Ok(pin) => {
                    *tries = Tries::default();
                    return Ok(pin);
                }
                Err(trouble) => trouble,
            };
            tries.note_try();
            if let Some(what) = trouble.words() {
                progress.note_trouble(what);
            }
            match trouble {
                Trouble::Away(what) | Trouble::Full(what) => {
                    n_away += 1;
                    tracing::debug!(what, from, "a file waits for the manager");
                    sleep(backoff(n_away)).await;
                }
                // This error may be about one task only.
                Trouble::Lasting(what) | Trouble::Missing(what) => return Err(transfer(&which, &what)),
                Trouble::Disk(error) if is_full(&error) && self.cache.find_room(n_full) => n_full += 1,
                Trouble::Disk(error) => return Err(node(&which, &error)),
                Trouble::Silent { server, what } => {
                    tries.n_silent += 1;
                    let n_silent = tries.n_silent;
                    tracing::warn!(what, from, n_silent, "a server sends nothing");
                    if n_silent >= N_SILENT_MAX || self.ways.silences.is_any(&server, &input.from) {
                        self.ways.silences.note(&server, &input.from);
                        tries.give_up(what.clone());
                        return Err(transfer(&which, &what));
                    }
                    sleep(backoff(n_silent)).await;
                }
                Trouble::Brief(what) => {
                    tries.n_failed += 1;
                    let n_failed = tries.n_failed;
                    tracing::warn!(what, from, n_failed, "a file could not be brought");
                    if n_failed >= N_TRIES {
                        tries.give_up(what.clone());
                        return Err(transfer(&which, &what));
                    }
                    sleep(backoff(n_failed + 2)).await;
                }
            }
        }
    }

    async fn try_once(
        &self,
        job: JobId,
        input: &TaskInput,
        key: &Digest,
        held: &Arc<Held>,
        (so_far, others): (SoFar<'_>, &mut Others),
    ) -> Result<Pin, Trouble> {
        let found = |pin: Pin| {
            self.has_moved(job, |moved| moved.cached += size_of_pinned(&pin));
            pin
        };
        if let Some(pin) = self.known(input, key, held).await? {
            self.note_here(&pin.sha256, input.bytes);
            return Ok(found(pin));
        }
        let lock = self.lock(input, key, LOCK_PATIENCE).await?;
        // Another agent may have fetched the file meanwhile.
        if let Some(pin) = self.known(input, key, held).await? {
            return Ok(found(pin));
        }
        if !is_elsewhere(input) {
            return showing_life(lock, self.fetch(job, input, key, held, so_far)).await;
        }
        // A missing file is asked for once, for all tasks of a job that run here.
        let place =
            sha256::of(format!("missing {} {} {}", self.family, held.name_of(job), input.from).as_bytes());
        if let Some(what) = self.cache.missing_at(&place, self.missing_for) {
            return Err(Trouble::Missing(what));
        }
        // Another agent may have waited in vain while this one waited for the lock.
        if let Some(silent) = others.take(&self.cache) {
            return Err(silent);
        }
        let fetch = async {
            let fetched = self.fetch(job, input, key, held, so_far).await;
            match &fetched {
                Err(Trouble::Missing(what)) => self.cache.note_missing(&place, what),
                Err(Trouble::Silent { server, what }) => others.note(&self.cache, server, what),
                _ => {}
            }
            fetched
        };
        showing_life(lock, fetch).await
    }

    /// Fetches an object from another pilot, from the manager or from its address.
    async fn fetch(
        &self,
        job: JobId,
        input: &TaskInput,
        key: &Digest,
        held: &Arc<Held>,
        so_far: SoFar<'_>,
    ) -> Result<Pin, Trouble> {
        // The file was hashed on arrival, so pinning reads nothing.
        let pinned = |sha256: &Digest| held.pin(sha256).map_err(Trouble::Disk);
        let is_of_manager = !is_elsewhere(input);
        if let Some(sha256) = input.sha256.filter(|_| is_of_manager)
            && self.came_from_near(&sha256, input.bytes.unwrap_or(0)).await.map_err(Trouble::Disk)?
            && let Some(pin) = pinned(&sha256)?
        {
            self.has_moved(job, |moved| moved.from_peers += size_of_pinned(&pin));
            return Ok(pin);
        }
        // The semaphore is never closed.
        let _place = self.places.acquire().await;
        let fetching = self.near.as_ref().zip(input.sha256).map(|((near, _), sha256)| near.fetching(&sha256));
        let part = self.part((job, held.task()), input, so_far).await?;
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
        pinned(&sha256)?.ok_or_else(|| Trouble::Brief("it was removed from the cache at once".to_owned()))
    }

    /// Downloads a file from the manager or from its address.
    async fn part(
        &self,
        whose: (JobId, Option<TaskId>),
        input: &TaskInput,
        (partial, progress): SoFar<'_>,
    ) -> Result<Part, Trouble> {
        let is_known = input.sha256.is_some();
        let download = Download { cache: &self.cache, is_known, partial, progress: Some(progress) };
        match (input.source, input.sha256) {
            (Source::Url, _) => self.ways.object_at((&input.from, &input.from), download).await,
            (Source::Store, _) => {
                self.ways.object_in_store(&self.session(), (whose, &input.from), download).await
            }
            (_, Some(sha256)) => {
                let (session, n_expected) = (self.session(), input.bytes.unwrap_or(0));
                self.ways.object_of_manager(&session, &sha256, n_expected, download).await
            }
            (_, None) => Err(Trouble::Lasting("the job does not say what it holds".to_owned())),
        }
    }

    async fn known(&self, input: &TaskInput, key: &Digest, held: &Arc<Held>) -> Result<Option<Pin>, Trouble> {
        match self.wanted(input, key) {
            Some(sha256) => self.pinned(sha256, held).await.map_err(Trouble::Disk),
            None => Ok(None),
        }
    }

    /// Returns the digest of an input, as far as it is known.
    fn wanted(&self, input: &TaskInput, key: &Digest) -> Option<Digest> {
        input.sha256.or_else(|| self.cache.known_at(key))
    }

    /// Returns the object, pinned, if it is here. Reads the whole object at its first use.
    pub(super) async fn pinned(&self, sha256: Digest, held: &Arc<Held>) -> io::Result<Option<Pin>> {
        let is_long = self.cache.has(&sha256) && !self.cache.is_verified(&sha256);
        let held = Arc::clone(held);
        beside(is_long.then_some(&self.disks), move || held.pin(&sha256)).await
    }

    /// Returns the turn of an object: one fetch at a time in this agent.
    fn turn(&self, key: &Digest) -> Arc<Turn> {
        let mut turns = lock(&self.turns);
        if let Some(turn) = turns.get(key).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Turn::default());
        turns.insert(*key, Arc::downgrade(&turn));
        turn
    }

    /// Takes the lock of an object: one fetch at a time on this node. Returns `None` if the object has come
    /// meanwhile, or if the holder is stuck. Then a second fetch does no harm, because an object gets its
    /// name only when it is complete.
    pub(super) async fn lock(
        &self,
        input: &TaskInput,
        key: &Digest,
        patience: Duration,
    ) -> Result<Option<FetchLock>, Trouble> {
        let (mut life, mut since) = (None, Instant::now());
        loop {
            if let Some(lock) = self.cache.try_lock(key).map_err(Trouble::Disk)? {
                return Ok(Some(lock));
            }
            if self.wanted(input, key).is_some_and(|sha256| self.cache.has(&sha256)) {
                return Ok(None);
            }
            let shown = self.cache.life_of(key);
            if shown != life {
                (life, since) = (shown, Instant::now());
            }
            if since.elapsed() >= patience {
                tracing::warn!(
                    from = protocol::net::address::shown(&input.from),
                    "another agent that fetches files here stands still"
                );
                return Ok(None);
            }
            sleep(LOCK_PAUSE).await;
        }
    }
}

/// Returns whether an input does not come from the manager.
fn is_elsewhere(input: &TaskInput) -> bool {
    matches!(input.source, Source::Url | Source::Store)
}

/// Does the work, and meanwhile shows the agents that wait for the lock that this one is alive.
pub(super) async fn showing_life<T>(lock: Option<FetchLock>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        match timeout(LIFE_PERIOD, work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => lock.iter().for_each(FetchLock::show_life),
        }
    }
}

/// Returns the size of a pinned object, which cannot vanish.
fn size_of_pinned(pin: &Pin) -> u64 {
    std::fs::metadata(&pin.path).map_or(0, |facts| facts.len())
}
