//! Fetches files from other pilots of the platform rather than from the manager, so that a file that many
//! pilots need leaves the manager once. The first pilot fetches it from the manager; the others wait for it
//! and fetch it from each other. Their files are verified like all others; a pilot that sends wrong contents
//! is not asked for them again.

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

/// Smaller files come from the manager sooner than other holders could be found.
const BYTES_MIN: u64 = 64 << 10;
/// The most tasks of a bundle for which the manager is asked about files of other tasks, and how many at a
/// time. Further tasks count as having no files elsewhere.
const N_LOOKED_AT: usize = 1_000;
const N_LOOKS: usize = 8;
/// Number of tasks in one message to the core.
const N_SEEN: usize = 64;
/// Number of holders of an object that could not be reached after which no further one is asked: each may
/// take seconds.
const N_UNREACHED_MAX: u32 = 2;
/// The longest wait for a pilot that fetches the object or that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first wait before asking again; it doubles up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The outcome of asking the holders of an object.
enum Asked {
    /// The object is here.
    Came,
    /// A holder is busy with other pilots.
    Busy,
    /// The holders cannot be reached from here.
    OutOfReach,
    /// No holder has it any more.
    Nothing,
}

/// Returns a client for the manager. Each event loop needs its own, because connections end with the loop
/// that made them.
pub(super) fn client(settings: &StagerSettings) -> io::Result<Client> {
    let client = Client::new(&settings.url, settings.certificate_sha256.as_deref());
    client.map_err(|error| io::Error::other(error.to_string()))
}

/// Starts the server for other pilots of the platform, if this pilot has any.
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
    /// Notes that an object was found here.
    pub(super) fn note_here(&self, sha256: &Digest, n_bytes: Option<u64>) {
        self.note_came(Origin::Cache, sha256, n_bytes.unwrap_or(0));
    }

    pub(super) fn note_came(&self, from: Origin, sha256: &Digest, n_bytes: u64) {
        if let Some((directory, _)) = &self.near {
            directory.note_moved(from, n_bytes);
            directory.gained(sha256);
        }
    }

    /// Returns whether another pilot has sent the object, so that it is in the cache now.
    ///
    /// # Errors
    /// This node's disk fails.
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

    /// Asks the holders one after another, until too many could not be reached.
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
            // The semaphore is never closed.
            let place = self.places.acquire().await;
            // Another fetch may have found this out meanwhile.
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

    /// Keeps files that a task has left for other tasks. The manager knows where they are before these tasks
    /// may start.
    pub(super) async fn keep(&self, left: &[(PathBuf, Digest, u64)]) {
        let mut is_any_kept = false;
        for (path, sha256, n_bytes) in left.iter().filter(|(_, _, n_bytes)| *n_bytes >= BYTES_MIN) {
            match (self.cache.adopt(path, *n_bytes, sha256), &self.near) {
                (Ok(true), Some((directory, _))) => {
                    directory.gained(sha256);
                    is_any_kept = true;
                }
                (Ok(_), _) => {}
                // The manager has the file.
                (Err(error), _) => {
                    tracing::warn!(%error, path = %path.display(), "a file does not stay in the cache");
                }
            }
        }
        if let Some((directory, client)) = self.near.as_ref().filter(|_| is_any_kept) {
            directory.tell(client).await;
        }
    }

    /// Reports the pilots that have the inputs of these tasks. If the manager is asked about files of other
    /// tasks, the results for some tasks are reported as soon as they are known, so that these tasks may
    /// start.
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

    /// Returns a task's inputs that the manager has, with the first page of the files that it takes from
    /// other tasks, which is enough.
    async fn with_taken(
        &self,
        job: JobId,
        index: u64,
        mut files: Vec<(Digest, u64)>,
    ) -> (u64, Vec<(Digest, u64)>) {
        let page = self.ways.taken(&self.session(), TaskId { job, index }, TakenFrom::default()).await;
        // Without an answer the task has no files elsewhere.
        let taken = page.map(|page| page.files).unwrap_or_default();
        files.extend(taken.iter().map(|file| (file.sha256, file.bytes)));
        (index, files)
    }

    /// Reports the pilots that have the inputs of some tasks.
    async fn tell_seen(&self, job: JobId, tasks: TaskSet, mut reads: TasksRead) {
        // The place of small files matters little.
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

    /// Asks other pilots for tasks; if they cannot be asked from here, the manager does it.
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
