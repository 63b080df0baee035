//! Brings and sends small files of the manager in packs, many at a time. One by one, each would cost a
//! request and several turns of the loop.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::OpenOptions,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use protocol::{
    files::pack::{self, CONTENTS_BYTES_MAX, N_PACKED_MIN, PACKED_BYTES_MAX},
    job::{OutputTarget, Source, TaskInput},
};
use scheduler::{digest::Digest, ids::JobId, results::FailureKind};
use tokio::time::sleep;

use super::{
    Mover,
    cache::FetchLock,
    fetch::{LOCK_PATIENCE, LOCK_PAUSE, showing_life},
    held::{Held, beside},
    left::LeftFile,
    lock, node, place,
    place::Stop,
    transfer,
    transfer::trouble::Trouble,
    waits::Progress,
};
use crate::{
    peers::Origin,
    session::client::backoff,
    sys::{opened, private, sha256},
};

impl Mover {
    /// Brings the inputs that are small files of the manager and not here, in packs; returns those that have
    /// come.
    pub(super) async fn bring_small(
        &self,
        job: JobId,
        inputs: &[TaskInput],
        held: &Arc<Held>,
    ) -> HashSet<Digest> {
        let small: BTreeMap<Digest, u64> = small_of(inputs).map(|(_, sha256, size)| (sha256, size)).collect();
        self.bring_packs(job, small, held).await
    }

    /// Puts the inputs that are small files of the manager into a task's folder; returns for each input
    /// whether it is there. Single transfers bring the others, with retries and error messages.
    pub(super) async fn give_small(
        &self,
        job: JobId,
        inputs: &[TaskInput],
        mut came: HashSet<Digest>,
        folder: &Path,
        held: &Arc<Held>,
    ) -> Result<Vec<bool>, FailureKind> {
        let small: Vec<(usize, Digest, u64)> = small_of(inputs).collect();
        if small.len() < N_PACKED_MIN {
            return Ok(vec![false; inputs.len()]);
        }
        let wanted = small.iter().map(|(n, sha256, _)| {
            let input = &inputs[*n];
            (*sha256, folder.join(&input.to), input.writable)
        });
        let given = self.give_all(wanted.collect(), held).await;
        let mut is_given = vec![false; inputs.len()];
        for ((n, sha256, size), given) in small.into_iter().zip(given) {
            let given = given.map_err(|error| {
                let which = inputs[n].shown();
                match error.kind() {
                    io::ErrorKind::AlreadyExists => transfer(&which, "it comes a second time"),
                    _ => node(&which, &error),
                }
            });
            is_given[n] = given?;
            // Files that have just come for this task are already counted.
            if is_given[n] && !came.remove(&sha256) {
                self.has_moved(job, |moved| moved.cached += size);
                self.note_small(Origin::Cache, size);
            }
        }
        Ok(is_given)
    }

    /// Brings the files that are not here, in packs; returns those that have come. The others are brought one
    /// by one.
    async fn bring_packs(
        &self,
        job: JobId,
        small: BTreeMap<Digest, u64>,
        held: &Arc<Held>,
    ) -> HashSet<Digest> {
        let mut came = HashSet::new();
        if small.len() < N_PACKED_MIN || self.missing(small.clone(), N_PACKED_MIN).await.len() < N_PACKED_MIN
        {
            return came;
        }
        // One fetch at a time in this agent and on this node, because others want the same files.
        let _turn = self.packing.lock().await;
        let lock = self.lock_packs().await;
        let missing = self.missing(small, usize::MAX).await;
        if missing.len() < N_PACKED_MIN {
            return came;
        }
        let brought = async {
            let mut packs = pack::divide(missing).into_iter();
            let mut coming = self.ask_for_pack(packs.next()).await?;
            while let Some(bytes) = coming {
                // The next pack comes while this one is written.
                let (taken_in, next) =
                    tokio::join!(self.take_in(bytes, held), self.ask_for_pack(packs.next()));
                for (sha256, size) in taken_in.map_err(|error| error.to_string())? {
                    self.has_moved(job, |moved| moved.from_manager += size);
                    self.note_small(Origin::Manager, size);
                    came.insert(sha256);
                }
                coming = next?;
            }
            Ok::<_, String>(())
        };
        if let Err(what) = showing_life(lock, brought).await {
            tracing::debug!(what, "small files come one by one");
        }
        came
    }

    /// Fetches a pack of these files, if there are any. The error is for logs.
    async fn ask_for_pack(&self, wanted: Option<Vec<(Digest, u64)>>) -> Result<Option<Vec<u8>>, String> {
        let Some(wanted) = wanted else { return Ok(None) };
        let wanted: Vec<Digest> = wanted.into_iter().map(|(sha256, _)| sha256).collect();
        // The semaphore is never closed.
        let _place = self.places.acquire().await;
        let bytes = self.ways.pack_of_manager(&self.session(), &wanted).await;
        bytes.map(Some).map_err(|trouble| format!("{trouble:?}"))
    }

    /// Puts the files of a pack into the cache; returns their digests and sizes.
    async fn take_in(&self, pack: Vec<u8>, held: &Arc<Held>) -> io::Result<Vec<(Digest, u64)>> {
        let (cache, held) = (Arc::clone(&self.cache), Arc::clone(held));
        let taken_in = beside(Some(&self.disks), move || {
            let files = pack::files(&pack).map_err(io::Error::other)?;
            cache.make_room(pack.len() as u64);
            let mut taken_in = Vec::with_capacity(files.len());
            for (sha256, contents) in files {
                held.stop().check()?;
                if cache.with_room(|| cache.take_in(contents, &sha256))? {
                    taken_in.push((sha256, contents.len() as u64));
                }
            }
            Ok(taken_in)
        });
        taken_in.await
    }

    /// Sends small output files to the manager in packs; returns digest and size of each file that is there.
    /// Single transfers send the others, with retries and error messages.
    pub(super) async fn send_small(
        &self,
        files: &[LeftFile],
        held: &Arc<Held>,
    ) -> HashMap<PathBuf, (Digest, u64)> {
        let is_small =
            |file: &&LeftFile| matches!(file.to, OutputTarget::Home(_)) && file.size <= PACKED_BYTES_MAX;
        let small: Vec<(PathBuf, u64)> =
            files.iter().filter(is_small).map(|file| (file.path.clone(), file.size)).collect();
        if small.len() < N_PACKED_MIN {
            return HashMap::new();
        }
        let waits = self.waits.begin(held.task(), "its small outputs to reach the manager", None);
        let (rest, sent) = (Mutex::new(pack::divide(small).into_iter()), Mutex::default());
        let rest = Portions { rest: &rest, sent: &sent };
        // A manager that takes no packs is asked only once.
        if self.send_portion(rest, held, &waits.progress).await {
            let lane = || async { while self.send_portion(rest, held, &waits.progress).await {} };
            // The manager flushes its disk for each pack, but once for several that arrive together.
            tokio::join!(lane(), lane(), lane());
        }
        sent.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads and sends the next pack. Returns false if there is none, or if packs do not work.
    async fn send_portion(&self, portions: Portions<'_>, held: &Arc<Held>, progress: &Progress) -> bool {
        let Some(portion) = lock(portions.rest).next() else { return false };
        let its = Arc::clone(held);
        let paths: Vec<PathBuf> = portion.into_iter().map(|(path, _)| path).collect();
        let Ok(read) = beside(Some(&self.disks), move || read_pack(paths, its.stop())).await else {
            portions.give_up();
            return false;
        };
        if read.files.is_empty() {
            return true;
        }
        if let Err(trouble) = self.send_pack((held.task().map(|task| task.job), read.pack), progress).await {
            tracing::debug!(?trouble, "small outputs go one by one");
            portions.give_up();
            return false;
        }
        lock(portions.sent).extend(read.files);
        true
    }

    /// Sends a pack; waits as long as the manager is away.
    async fn send_pack(
        &self,
        (job, pack): (Option<JobId>, Vec<u8>),
        progress: &Progress,
    ) -> Result<(), Trouble> {
        let mut n_away = 0;
        loop {
            let sent = {
                // The semaphore is never closed.
                let _place = self.places.acquire().await;
                self.ways.pack_to_manager(&self.session(), job, pack.clone()).await
            };
            match sent {
                Err(Trouble::Away(what)) => {
                    n_away += 1;
                    tracing::debug!(what, "small outputs wait for the manager");
                    progress.note_trouble(&what);
                    sleep(backoff(n_away)).await;
                }
                sent => return sent,
            }
        }
    }

    /// Returns the files that are not in the cache, at most `n_max`.
    async fn missing(&self, files: BTreeMap<Digest, u64>, n_max: usize) -> BTreeMap<Digest, u64> {
        let cache = Arc::clone(&self.cache);
        let looked = beside(None, move || {
            Ok(files.into_iter().filter(|(sha256, _)| !cache.has(sha256)).take(n_max).collect())
        });
        looked.await.unwrap_or_default()
    }

    /// Puts verified files of the cache into a task's folder; returns for each whether it is there.
    async fn give_all(
        &self,
        wanted: Vec<(Digest, PathBuf, bool)>,
        held: &Arc<Held>,
    ) -> Vec<io::Result<bool>> {
        let (cache, held, n_wanted) = (Arc::clone(&self.cache), Arc::clone(held), wanted.len());
        let given = beside(None, move || {
            let mut made: Option<PathBuf> = None;
            let give = |(sha256, target, is_writable): (Digest, PathBuf, bool)| {
                held.stop().check()?;
                let parent = target.parent().unwrap_or(Path::new("/"));
                if made.as_deref() != Some(parent) {
                    private::make_folder(parent)?;
                    made = Some(parent.to_owned());
                }
                cache.give(&sha256, |object| match is_writable {
                    true => place::copy(object, &target, held.stop()),
                    false => {
                        place::give(object, &target, held.stop(), |from, to| std::fs::hard_link(from, to))
                    }
                })
            };
            Ok(wanted.into_iter().map(give).collect())
        });
        given.await.unwrap_or_else(|_| (0..n_wanted).map(|_| Ok(false)).collect())
    }

    async fn lock_packs(&self) -> Option<FetchLock> {
        let key = sha256::of(b"packs");
        let (mut life, mut since) = (None, Instant::now());
        loop {
            match self.cache.try_lock(&key) {
                Ok(None) => {}
                Ok(lock) => return lock,
                Err(_) => return None,
            }
            let shown = self.cache.life_of(&key);
            if shown != life {
                (life, since) = (shown, Instant::now());
            }
            if since.elapsed() >= LOCK_PATIENCE {
                return None;
            }
            sleep(LOCK_PAUSE).await;
        }
    }

    /// Counts a small file. Other pilots do not ask for small files and need not know their holders.
    fn note_small(&self, from: Origin, n_bytes: u64) {
        if let Some((directory, _)) = &self.near {
            directory.note_moved(from, n_bytes);
        }
    }
}

/// Small files on their way to the manager.
#[derive(Clone, Copy)]
struct Portions<'p> {
    /// Packs that are not sent yet: paths of files, with their sizes.
    rest: &'p Mutex<std::vec::IntoIter<Vec<(PathBuf, u64)>>>,
    /// Files that the manager has now.
    sent: &'p Mutex<HashMap<PathBuf, (Digest, u64)>>,
}

impl Portions<'_> {
    /// Drops the unsent packs: their files are sent one by one.
    fn give_up(self) {
        lock(self.rest).by_ref().for_each(drop);
    }
}

struct ReadPack {
    pack: Vec<u8>,
    /// The files in the pack, each with its digest and size.
    files: Vec<(PathBuf, (Digest, u64))>,
}

/// Returns a pack of the files that can be read and fit into it.
fn read_pack(paths: Vec<PathBuf>, stop: &Stop) -> io::Result<ReadPack> {
    let mut read = ReadPack { pack: Vec::new(), files: Vec::new() };
    let mut n_bytes = 0;
    for path in paths {
        stop.check()?;
        let mut contents = Vec::new();
        let opened = opened::open(OpenOptions::new().read(true), &path);
        let looked = opened.and_then(|file| file.take(PACKED_BYTES_MAX + 1).read_to_end(&mut contents));
        // The file may have grown.
        let is_small = looked.is_ok() && contents.len() as u64 <= PACKED_BYTES_MAX;
        if is_small && n_bytes + contents.len() <= CONTENTS_BYTES_MAX {
            n_bytes += contents.len();
            let sha256 = sha256::of(&contents);
            pack::push(&mut read.pack, &sha256, &contents);
            read.files.push((path, (sha256, contents.len() as u64)));
        }
    }
    Ok(read)
}

/// Returns the small files of the manager among inputs: index, digest, and size in bytes.
fn small_of(inputs: &[TaskInput]) -> impl Iterator<Item = (usize, Digest, u64)> {
    inputs.iter().enumerate().filter_map(|(n, input)| Some((n, input.sha256?, small_size(input)?)))
}

/// Returns the size of a file that may come in a pack.
fn small_size(input: &TaskInput) -> Option<u64> {
    let is_of_manager = matches!(input.source, Source::Home | Source::Tasks);
    input.bytes.filter(|size| is_of_manager && *size <= PACKED_BYTES_MAX)
}
