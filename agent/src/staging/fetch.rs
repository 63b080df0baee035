//! What tasks wait for, into the cache: it is here, or another pilot has it, or it comes from the manager or from where
//! its address leads. One fetch for all who wait, in this agent and on this node.

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

/// How often it is looked whether another agent has fetched what is wanted.
pub(super) const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Whoever has the right to fetch and shows no life for so long stands still: others do not wait for it any more.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(30);
/// How often it shows some.
const LIFE_PERIOD: Duration = Duration::from_secs(5);
/// A try that brought so much more counts as none: who sends large files may break off often.
const PROGRESS_BYTES: u64 = 1 << 20;
/// A file that a server does not have is asked for again after that: somebody brings it there, and runs what has failed again.
pub(super) const MISSING_FOR: Duration = Duration::from_secs(10);

/// What came of a file before it broke off, and how far it is.
type SoFar<'f> = (&'f mut Option<Partial>, &'f Progress);

/// The tries to bring one object from one place, one after the other, for all tasks of this agent that wait for it. What is
/// learned for one of them counts for all: a server that sends nothing would else cost the tries of each task.
#[derive(Default)]
pub(super) struct Turn(AsyncMutex<Tries>);

#[derive(Default)]
struct Tries {
    partial: Option<Partial>,
    /// The most that a try had when it broke off.
    n_bytes_most: u64,
    n_failed: u32,
    n_silent: u32,
    /// When it was given up, and why.
    given_up: Option<(Instant, String)>,
}

impl Tries {
    /// Why it was given up since then.
    fn given_up_since(&self, began_at: Instant) -> Option<&str> {
        self.given_up.as_ref().filter(|(at, _)| *at > began_at).map(|(_, why)| why.as_str())
    }

    /// A try has failed; it counts as none if it brought more than all before it. Else a server that breaks off, and
    /// each time sends another version, would be asked for ever.
    fn note_try(&mut self) {
        let n_bytes = self.partial.as_ref().map_or(0, Partial::n_bytes);
        if n_bytes >= self.n_bytes_most + PROGRESS_BYTES {
            (self.n_failed, self.n_silent) = (0, 0);
        }
        self.n_bytes_most = n_bytes.max(self.n_bytes_most);
    }

    /// All who wait for it now hear that it does not come. Who wants it later tries anew.
    fn give_up(&mut self, what: String) {
        *self = Tries { given_up: Some((Instant::now(), what)), ..Tries::default() };
    }
}

impl Mover {
    /// The object of an input, pinned; tries several times.
    pub(super) async fn bring(
        &self,
        job: JobId,
        input: &TaskInput,
        held: &Arc<Held>,
    ) -> Result<Pin, FailureKind> {
        // All tasks of a job get the same contents of an address; another job may get newer ones. A cache may outlive the
        // manager's store, and the next store has jobs of the same numbers at the same address.
        let key = match input.sha256 {
            Some(sha256) => sha256,
            None => {
                let job = held.name_of(job);
                sha256::of(format!("{} {job} {}", self.family, input.from).as_bytes())
            }
        };
        // Two servers may have one file, and one of them be silent.
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
                // That may be said of one task only.
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
        // Another agent may have fetched it meanwhile.
        if let Some(pin) = self.known(input, key, held).await? {
            return Ok(found(pin));
        }
        if !is_elsewhere(input) {
            return showing_life(lock, self.fetch(job, input, key, held, so_far)).await;
        }
        // What a server does not have it is asked for once, for all tasks of a job that run here.
        let place =
            sha256::of(format!("missing {} {} {}", self.family, held.name_of(job), input.from).as_bytes());
        if let Some(what) = self.cache.missing_at(&place, self.missing_for) {
            return Err(Trouble::Missing(what));
        }
        // Another agent may have waited in vain while this one waited for it.
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

    /// From who has it.
    async fn fetch(
        &self,
        job: JobId,
        input: &TaskInput,
        key: &Digest,
        held: &Arc<Held>,
        so_far: SoFar<'_>,
    ) -> Result<Pin, Trouble> {
        // What has just come was hashed on its way: to pin it reads nothing.
        let pinned = |sha256: &Digest| held.pin(sha256).map_err(Trouble::Disk);
        let is_of_manager = !is_elsewhere(input);
        if let Some(sha256) = input.sha256.filter(|_| is_of_manager)
            && self.came_from_near(&sha256, input.bytes.unwrap_or(0)).await.map_err(Trouble::Disk)?
            && let Some(pin) = pinned(&sha256)?
        {
            self.has_moved(job, |moved| moved.from_peers += size_of_pinned(&pin));
            return Ok(pin);
        }
        // It is never closed.
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

    /// From the manager, or from where its address leads.
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

    /// What it holds, as far as that is known.
    fn wanted(&self, input: &TaskInput, key: &Digest) -> Option<Digest> {
        input.sha256.or_else(|| self.cache.known_at(key))
    }

    /// The object, if it is here. It is read as a whole when it is used for the first time.
    pub(super) async fn pinned(&self, sha256: Digest, held: &Arc<Held>) -> io::Result<Option<Pin>> {
        let is_long = self.cache.has(&sha256) && !self.cache.is_verified(&sha256);
        let held = Arc::clone(held);
        beside(is_long.then_some(&self.disks), move || held.pin(&sha256)).await
    }

    /// One at a time of this agent.
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

    /// One at a time of this node. None: what is wanted has come meanwhile, or whoever has the right stands still. Then
    /// it is fetched beside that one: an object gets its name only when it is whole.
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

/// Whether it comes from elsewhere than the manager.
fn is_elsewhere(input: &TaskInput) -> bool {
    matches!(input.source, Source::Url | Source::Store)
}

/// Does it, and shows those who wait for the right to do it that it goes on.
pub(super) async fn showing_life<T>(lock: Option<FetchLock>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        match timeout(LIFE_PERIOD, work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => lock.iter().for_each(FetchLock::show_life),
        }
    }
}

/// What is pinned does not go.
fn size_of_pinned(pin: &Pin) -> u64 {
    std::fs::metadata(&pin.path).map_or(0, |facts| facts.len())
}
