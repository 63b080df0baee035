//! Files that other pilots of the platform have: from there before from the manager, so that what many need goes through
//! the manager once. The first who wants a file fetches it there, the others wait for it and fetch it from each other.
//! What comes from them is checked as everything is; whoever gives something else is not asked for it again.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use protocol::{files::objects::TakenFrom, peers::Peer};
use scheduler::{
    digest::Digest,
    ids::{JobId, TaskId},
    pilot::{Hunted, ReadBy},
    ranges::TaskSet,
};
use tokio::time::sleep;

use super::{
    Moved, Mover, Reads, StagerSettings, TasksRead, Tell, Who, cache::Cache, lock, transfer::NoGift,
};
use crate::{
    peers::{self, Asks, Directory, Endpoint, Host, Origin},
    session::client::{Client, random},
};

/// Smaller ones come from the manager sooner than it is known where else they are.
const BYTES_MIN: u64 = 64 << 10;
/// Of so many tasks of a bundle it is asked what they take, and of so many at a time. The others wait where they are.
const N_LOOKED_AT: usize = 1_000;
const N_LOOKS: usize = 8;
/// It is said of so many at a time.
const N_SEEN: usize = 64;
/// Others are not asked for an object any more when so many that have it could not be reached: each may take seconds.
const N_UNREACHED_MAX: u32 = 2;
/// How long who fetches it, or who serves others, is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first wait until it is asked again; it doubles up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What came of asking those who have an object.
enum Asked {
    /// It is here.
    Came,
    /// One of them serves enough others now.
    Busy,
    /// They cannot be reached from here.
    OutOfReach,
    /// None of them has it.
    Nothing,
}

/// A way to the manager. Each loop has its own, as connections end with the loop that made them.
pub(super) fn client(settings: &StagerSettings) -> io::Result<Client> {
    let client = Client::new(&settings.url, settings.certificate_sha256.as_deref());
    client.map_err(|error| io::Error::other(error.to_string()))
}

/// Makes this pilot known to the others of its platform, where it is one.
pub(super) fn join(
    settings: &StagerSettings,
    session: &str,
    cache: &Arc<Cache>,
    tell: &Tell,
) -> io::Result<Option<(Arc<Directory>, Host)>> {
    let Some(pilot) = settings.pilot else { return Ok(None) };
    let endpoint = Endpoint::open(&settings.url)?;
    let directory = Arc::new(Directory::new(&endpoint, pilot, session));
    let tell = Arc::clone(tell);
    let asks: Asks = Arc::new(move |thief, answer| tell(Moved::AskedFor { thief, answer }));
    let host = Host::start(endpoint, client(settings)?, Arc::clone(&directory), Arc::clone(cache), asks)?;
    Ok(Some((directory, host)))
}

impl Mover {
    /// An object was found here.
    pub(super) fn note_here(&self, sha256: &Digest, n_bytes: Option<u64>) {
        self.note_came(Origin::Cache, sha256, n_bytes.unwrap_or(0));
    }

    pub(super) fn note_came(&self, from: Origin, sha256: &Digest, n_bytes: u64) {
        if let Some((directory, _)) = &self.near {
            directory.note_moved(from, n_bytes);
            directory.gained(sha256);
        }
    }

    /// Whether the object is in the cache now because another pilot had it.
    ///
    /// # Errors
    /// This node's disk.
    pub(super) async fn came_from_near(&self, sha256: &Digest, n_expected: u64) -> io::Result<bool> {
        let Some((directory, client)) = self.near.as_ref().filter(|_| n_expected >= BYTES_MIN) else {
            return Ok(false);
        };
        let (until, mut pause, mut n_unreached) = (Instant::now() + PATIENCE, PAUSE_FIRST, 0);
        loop {
            let Ok(Some(place)) = directory.find(client, sha256).await else { return Ok(false) };
            match self.ask_holders(directory, place.at, (sha256, n_expected), &mut n_unreached).await? {
                Asked::Came => return Ok(true),
                Asked::OutOfReach => return Ok(false),
                Asked::Nothing if !place.is_coming => return Ok(false),
                Asked::Nothing | Asked::Busy => {}
            }
            if Instant::now() > until {
                return Ok(false);
            }
            sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Asks one after the other for it, until too many could not be reached.
    async fn ask_holders(
        &self,
        directory: &Directory,
        mut holders: Vec<Peer>,
        (sha256, n_expected): (&Digest, u64),
        n_unreached: &mut u32,
    ) -> io::Result<Asked> {
        let Some(token) = directory.token() else { return Ok(Asked::OutOfReach) };
        let mut is_busy = false;
        while !holders.is_empty() {
            let peer = holders.swap_remove((random() % holders.len() as u64) as usize);
            // It is never closed.
            let place = self.places.acquire().await;
            // That was found out meanwhile.
            if directory.is_alone() {
                return Ok(Asked::OutOfReach);
            }
            let begun = Instant::now();
            let given = self.ways.object_of_peer((&peer, &token), sha256, &self.cache, n_expected).await;
            drop(place);
            if !matches!(given, Err(NoGift::Away(_))) {
                directory.reached();
            }
            match given {
                Ok(part) => match self.cache.finish(part, Some(sha256))? {
                    Ok((_, n_bytes)) => {
                        directory.note_fetched(n_bytes, begun.elapsed());
                        self.note_came(Origin::Peer, sha256, n_bytes);
                        return Ok(Asked::Came);
                    }
                    Err(found) => {
                        tracing::warn!(pilot = %peer.pilot, %sha256, %found, "another pilot gave another file");
                        directory.distrust(peer.pilot, sha256);
                    }
                },
                Err(NoGift::Busy) => is_busy = true,
                Err(NoGift::None) => directory.distrust(peer.pilot, sha256),
                Err(NoGift::Away(what)) => {
                    tracing::info!(pilot = %peer.pilot, what, "another pilot cannot be reached");
                    directory.not_reached(peer.pilot);
                    *n_unreached += 1;
                    if *n_unreached >= N_UNREACHED_MAX {
                        return Ok(Asked::OutOfReach);
                    }
                }
                Err(NoGift::Disk(error)) => return Err(error),
            }
        }
        Ok(if is_busy { Asked::Busy } else { Asked::Nothing })
    }

    /// Keeps files that a task has left for tasks that take them. Where they are is known before anybody hears that
    /// such a task may begin.
    pub(super) async fn keep(&self, left: &[(PathBuf, Digest, u64)]) {
        let mut is_any_kept = false;
        for (path, sha256, n_bytes) in left.iter().filter(|(_, _, n_bytes)| *n_bytes >= BYTES_MIN) {
            match (self.cache.adopt(path, *n_bytes, sha256), &self.near) {
                (Ok(true), Some((directory, _))) => {
                    directory.gained(sha256);
                    is_any_kept = true;
                }
                (Ok(_), _) => {}
                // The manager has it.
                (Err(error), _) => {
                    tracing::warn!(%error, path = %path.display(), "a file does not stay in the cache");
                }
            }
        }
        if let Some((directory, client)) = self.near.as_ref().filter(|_| is_any_kept) {
            directory.tell(client).await;
        }
    }

    /// Says who has what these tasks read. Where the manager is asked for each what it takes of others, that is said of
    /// some as soon as it is known of them: they may begin.
    pub(super) async fn look(&self, job: JobId, mut tasks: TaskSet, reads: Reads) {
        let mut named = reads.named;
        let n_asked = if reads.takes { named.len().min(N_LOOKED_AT) } else { 0 };
        let others = named.split_off(n_asked);
        let with_taken = named.into_iter().map(|(index, files)| self.with_taken(job, index, files));
        let mut portions = pin!(stream::iter(with_taken).buffered(N_LOOKS).chunks(N_SEEN));
        while let Some(portion) = portions.next().await {
            let seen: TaskSet = portion.iter().map(|(index, _)| *index).collect();
            tasks.remove_all(&seen);
            self.tell_seen(job, seen, portion).await;
        }
        if !tasks.is_empty() {
            self.tell_seen(job, tasks, others).await;
        }
    }

    /// What a task reads that the manager has, with what it takes of others: the first page of that says enough.
    async fn with_taken(
        &self,
        job: JobId,
        index: u64,
        mut files: Vec<(Digest, u64)>,
    ) -> (u64, Vec<(Digest, u64)>) {
        let page = self.ways.taken(&self.session(), TaskId { job, index }, TakenFrom::default()).await;
        // Without an answer it waits where it is.
        let taken = page.map(|page| page.files).unwrap_or_default();
        files.extend(taken.iter().map(|file| (file.sha256, file.bytes)));
        (index, files)
    }

    /// Says of some tasks who has what they read.
    async fn tell_seen(&self, job: JobId, tasks: TaskSet, mut reads: TasksRead) {
        // It matters little where small ones are.
        reads.iter_mut().for_each(|(_, files)| files.retain(|(_, n_bytes)| *n_bytes >= BYTES_MIN));
        let all: BTreeSet<Digest> =
            reads.iter().flat_map(|(_, files)| files).map(|(sha256, _)| *sha256).collect();
        let (at, bytes_per_s) = match &self.near {
            Some((directory, client)) => {
                // Other pilots of this node may have brought it.
                let elsewhere = all.into_iter().filter(|sha256| !self.cache.has(sha256)).collect();
                (directory.who_has(client, elsewhere).await, directory.bytes_per_s())
            }
            None => (HashMap::new(), 0),
        };
        let file = |(sha256, bytes): &(Digest, u64)| ReadBy { at: at.get(sha256).copied(), bytes: *bytes };
        let read = reads.iter().map(|(index, files)| (*index, files.iter().map(file).collect())).collect();
        (self.tell)(Moved::Seen { job, tasks, read, bytes_per_s });
    }

    /// Asks others for tasks; where they cannot be asked from here, the manager does it.
    pub(super) async fn hunt(&self) {
        let Who { pilot, session } = lock(&self.who).clone();
        let hunted = match (&self.near, &self.client, pilot) {
            (Some((directory, client)), _, _) => peers::hunt(directory, client, &self.ways.peers).await,
            (None, Some(client), Some(pilot)) => peers::ask_manager(client, &session, pilot).await,
            (None, _, _) => Hunted::InVain,
        };
        (self.tell)(Moved::Hunted(hunted));
    }
}
