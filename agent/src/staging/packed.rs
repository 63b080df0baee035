//! Small files of the manager: brought in packs, and given to a task many at a time. One by one, each would cost a
//! request, and several turns of the loop.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use protocol::{
    job::{Source, TaskInput},
    pack::{self, N_PACKED_MIN, PACKED_BYTES_MAX},
};
use scheduler::{digest::Digest, ids::JobId, results::FailureKind};
use tokio::time::sleep;

use super::{
    Mover,
    cache::FetchLock,
    fetch::{LOCK_PATIENCE, LOCK_PAUSE, showing_life},
    held::{Held, beside},
    node, place, transfer,
};
use crate::{peers::Origin, private, sha256};

impl Mover {
    /// Gives a task those of these inputs that are small files of the manager; of each whether it has it. The others are
    /// for who brings files one by one: he tries again, and knows what is wrong.
    pub(super) async fn give_small(
        &self,
        job: JobId,
        inputs: &[TaskInput],
        folder: &Path,
        held: &Arc<Held>,
    ) -> Result<Vec<bool>, FailureKind> {
        let small: Vec<(usize, Digest, u64)> = inputs
            .iter()
            .enumerate()
            .filter_map(|(n, input)| Some((n, input.sha256?, small_size(input)?)))
            .collect();
        if small.len() < N_PACKED_MIN {
            return Ok(vec![false; inputs.len()]);
        }
        let mut came = self.bring_packs(job, &small, held).await;
        let wanted = small.iter().map(|(n, sha256, _)| {
            let input = &inputs[*n];
            (*sha256, folder.join(&input.to), input.writable)
        });
        let given = self.give_all(wanted.collect(), held).await;
        let mut is_given = vec![false; inputs.len()];
        for ((n, sha256, size), given) in small.into_iter().zip(given) {
            let given = given.map_err(|error| {
                let shown = inputs[n].to.to_string_lossy();
                match error.kind() {
                    io::ErrorKind::AlreadyExists => transfer(&shown, "it comes a second time"),
                    _ => node(&shown, &error),
                }
            });
            is_given[n] = given?;
            // What has just come for this task was counted.
            if is_given[n] && !came.remove(&sha256) {
                self.has_moved(job, |moved| moved.cached += size);
                self.note_small(Origin::Cache, size);
            }
        }
        Ok(is_given)
    }

    /// Brings those of these files that are not here, in packs; says which have come. What does not come so is brought
    /// otherwise.
    async fn bring_packs(
        &self,
        job: JobId,
        small: &[(usize, Digest, u64)],
        held: &Arc<Held>,
    ) -> HashSet<Digest> {
        let mut came = HashSet::new();
        let all: BTreeMap<Digest, u64> = small.iter().map(|(_, sha256, size)| (*sha256, *size)).collect();
        let missing = self.missing(all).await;
        if missing.len() < N_PACKED_MIN {
            return came;
        }
        // One at a time of this agent, and of this node: others want the same files.
        let _turn = self.packing.lock().await;
        let lock = self.lock_packs().await;
        let missing = self.missing(missing).await;
        if missing.len() < N_PACKED_MIN {
            return came;
        }
        let brought = async {
            for pack in pack::divide(missing) {
                let wanted: Vec<Digest> = pack.iter().map(|(sha256, _)| *sha256).collect();
                let bytes = {
                    // It is never closed.
                    let _place = self.places.acquire().await;
                    self.ways.pack_of_manager(&self.session(), &wanted).await
                };
                let bytes = bytes.map_err(|trouble| format!("{trouble:?}"))?;
                let (cache, held) = (Arc::clone(&self.cache), Arc::clone(held));
                let taken_in = beside(Some(&self.disks), move || {
                    let files = pack::files(&bytes).map_err(io::Error::other)?;
                    cache.make_room(bytes.len() as u64);
                    let mut taken_in = Vec::with_capacity(files.len());
                    for (sha256, contents) in files {
                        held.stop().check()?;
                        if cache.take_in(contents, &sha256)? {
                            taken_in.push((sha256, contents.len() as u64));
                        }
                    }
                    Ok(taken_in)
                });
                for (sha256, size) in taken_in.await.map_err(|error| error.to_string())? {
                    self.has_moved(job, |moved| moved.from_manager += size);
                    self.note_small(Origin::Manager, size);
                    came.insert(sha256);
                }
            }
            Ok::<_, String>(())
        };
        if let Err(what) = showing_life(lock, brought).await {
            tracing::debug!(what, "small files come one by one");
        }
        came
    }

    /// Those that are not in the cache.
    async fn missing(&self, mut files: BTreeMap<Digest, u64>) -> BTreeMap<Digest, u64> {
        let cache = Arc::clone(&self.cache);
        let looked = beside(None, move || {
            files.retain(|sha256, _| !cache.has(sha256));
            Ok(files)
        });
        looked.await.unwrap_or_default()
    }

    /// Gives a task files of the cache that were seen to be right; of each whether it was given.
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
                    false => std::fs::hard_link(object, &target),
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

    /// Others do not ask for small files, and need not know who has them.
    fn note_small(&self, from: Origin, n_bytes: u64) {
        if let Some((directory, _)) = &self.near {
            directory.note_moved(from, n_bytes);
        }
    }
}

/// How large a file is that may come in a pack.
fn small_size(input: &TaskInput) -> Option<u64> {
    let is_of_manager = matches!(input.source, Source::Home | Source::Tasks);
    input.bytes.filter(|size| is_of_manager && *size <= PACKED_BYTES_MAX)
}
