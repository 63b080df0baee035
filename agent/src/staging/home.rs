//! Delivers the output files of tasks to their targets.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use protocol::job::OutputTarget;
use scheduler::{
    digest::Digest,
    ids::JobId,
    results::{FailureKind, OutputFile},
};
use tokio::time::sleep;

use super::{
    Mover, N_TRIES, Outputs, cache,
    held::{Held, beside},
    left, lock, node, place, transfer,
    transfer::trouble::Trouble,
    unread,
};
use crate::{
    session::client::backoff,
    sys::{opened, parts},
};

/// The most folders that are remembered; forgotten ones are searched again.
const N_LOOKED_INTO_MAX: usize = 10_000;

/// The target of a file.
#[derive(Clone, Copy)]
enum Goal<'p> {
    /// The manager, which delivers it to the submission's folder.
    Home,
    /// This place in a store, for a task of this job.
    Store { job: JobId, place: &'p str, mode: u32 },
}

/// The texts for a file and its target, in messages and waits.
struct Names {
    /// `x`, in the task's folder.
    from: String,
    /// `output x to store://lab/x`
    which: String,
    /// `its output x to reach store://lab/x`
    awaited: String,
}

impl Names {
    fn of(from: &Path, to: &OutputTarget) -> Names {
        let from = from.to_string_lossy();
        let place = match (to, to.shown()) {
            (OutputTarget::Home(_), place) if place == from => "the manager".to_owned(),
            (OutputTarget::Home(_), place) => format!("the manager (for {place})"),
            (_, place) => place,
        };
        Names {
            from: from.clone().into_owned(),
            which: format!("output {from} to {place}"),
            awaited: format!("its output {from} to reach {place}"),
        }
    }
}

/// Contents of inputs by whether they are executable at their origin. In a task's folder all inputs have the
/// same permissions.
#[derive(Debug, Default)]
pub(super) struct Executables {
    executable: HashSet<Digest>,
    /// Contents of inputs that are not known to be executable.
    plain: HashSet<Digest>,
}

impl Executables {
    /// Notes the contents of an input.
    pub(super) fn note(&mut self, sha256: Digest, is_executable: bool) {
        match is_executable {
            true => self.executable.insert(sha256),
            false => self.plain.insert(sha256),
        };
    }

    /// Returns whether a file is executable: by its permissions, unless permissions and contents are those of
    /// an input that is not executable.
    fn has(&self, mode: u32, sha256: &Digest) -> bool {
        let is_plain = self.plain.contains(sha256) && !self.executable.contains(sha256);
        mode & 0o100 != 0 && !(is_plain && mode & 0o777 == cache::OBJECT_MODE)
    }
}

/// Returns whether a folder was not searched yet, and marks it as searched.
fn is_new(looked_into: &mut HashSet<PathBuf>, folder: &Path) -> bool {
    if looked_into.contains(folder) {
        return false;
    }
    if looked_into.len() >= N_LOOKED_INTO_MAX {
        looked_into.clear();
    }
    looked_into.insert(folder.to_owned())
}

impl Mover {
    pub(super) async fn deliver(
        &self,
        job: JobId,
        outputs: &Outputs,
        folder: &Path,
        held: &Arc<Held>,
    ) -> Result<Vec<OutputFile>, FailureKind> {
        let (mut files, mut taken, mut found, mut left_out) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut places = BTreeMap::new();
        for output in &outputs.files {
            let (folder, brought, its) = (folder.to_owned(), outputs.brought.clone(), output.clone());
            let named = beside(None, move || Ok(left::files(&folder, &its, &brought))).await;
            let left = named.map_err(|error| node(&output.shown(), &error))??;
            left_out.extend(left.left_out);
            for file in left.files {
                // Two patterns may match one file.
                match places.insert(file.to.shown(), file.from.clone()) {
                    None => found.push(file),
                    Some(other) if other == file.from => {}
                    Some(other) => {
                        let what = format!("{} goes there, too", other.to_string_lossy());
                        return Err(FailureKind::OutputMissing {
                            file: format!("{} under a name of its own ({what})", file.from.to_string_lossy()),
                        });
                    }
                }
            }
        }
        let mut packed = self.send_small(&found, held).await;
        for output in found {
            let path = output.path;
            let place = output.to.shown();
            let names = Names::of(&output.from, &output.to);
            let is_of_cache = output.mode & 0o777 == cache::OBJECT_MODE;
            let tells_nothing =
                outputs.copied.contains(&output.from) || is_of_cache && outputs.plain.contains(&output.from);
            let mode = if tells_nothing { output.mode & !0o111 } else { output.mode };
            let (sha256, bytes) = match &output.to {
                OutputTarget::Home(_) => match packed.remove(&path) {
                    Some(facts) => facts,
                    None => self.bring_out(&path, &names, Goal::Home, held).await?,
                },
                OutputTarget::Store(_) => {
                    let goal = Goal::Store { job, place: &place, mode };
                    self.bring_out(&path, &names, goal, held).await?
                }
                OutputTarget::File(to) => {
                    let _waits = self.waits.begin(held.task(), &names.awaited, None);
                    let delivered = self.to_shared(path.clone(), (to.clone(), mode), held).await;
                    delivered.map_err(|error| transfer(&names.which, &error.to_string()))?
                }
            };
            self.has_moved(job, |moved| match output.to {
                OutputTarget::Home(_) => moved.to_manager += bytes,
                OutputTarget::File(_) => moved.to_shared += bytes,
                OutputTarget::Store(_) => moved.to_stores += bytes,
            });
            if outputs.is_taken && matches!(output.to, OutputTarget::Home(_)) {
                taken.push((path, sha256, bytes));
            }
            let executable = lock(&self.executables).has(mode, &sha256);
            files.push(OutputFile { to: place, sha256, bytes, executable, left_out: None });
        }
        // Two patterns may also match one link.
        let left_out: BTreeMap<String, String> =
            left_out.into_iter().map(|(to, why)| (to.shown(), why)).collect();
        let left_out = left_out.into_iter().filter(|(to, _)| !places.contains_key(to));
        files.extend(left_out.map(|(to, why)| OutputFile {
            to,
            left_out: Some(why),
            ..OutputFile::default()
        }));
        self.keep(&taken).await;
        Ok(files)
    }

    /// Copies a file to a shared file system.
    pub(super) async fn to_shared(
        &self,
        from: PathBuf,
        (to, mode): (PathBuf, u32),
        held: &Arc<Held>,
    ) -> io::Result<(Digest, u64)> {
        let (held, executables) = (Arc::clone(held), Arc::clone(&self.executables));
        let is_executable = move |sha256: &Digest| lock(&executables).has(mode, sha256);
        let looked_into = Arc::clone(&self.looked_into);
        let deliver = move || {
            if let Some(folder) = to.parent().filter(|folder| is_new(&mut lock(&looked_into), folder)) {
                parts::remove_dead(folder);
            }
            place::deliver(&from, &to, held.stop(), is_executable)
        };
        beside(Some(&self.shares), deliver).await
    }

    /// Returns the digest and size of a file.
    pub(super) async fn hashed(&self, path: PathBuf) -> io::Result<(Digest, u64)> {
        beside(Some(&self.disks), move || cache::hash_of(&File::open(path)?)).await
    }

    /// Sends a file, and waits as long as the manager is away or has no room; retries other failures a few
    /// times.
    async fn bring_out(
        &self,
        path: &Path,
        Names { from, which, awaited }: &Names,
        goal: Goal<'_>,
        held: &Held,
    ) -> Result<(Digest, u64), FailureKind> {
        let waits = self.waits.begin(held.task(), awaited, None);
        let on_disk = |error: io::Error| unread(from, &error);
        let (mut n_failed, mut n_away, mut known) = (0, 0, None);
        loop {
            // Another process may have replaced the file meanwhile.
            let opened = opened::open(OpenOptions::new().read(true), path);
            let opened = opened.and_then(|file| Ok((file.metadata()?.modified()?, file)));
            let (written_at, file) = opened.map_err(on_disk)?;
            // The file may wait for hours and is not read again for each attempt.
            let facts = match known {
                Some((at, facts)) if at == written_at => facts,
                _ => self.hashed(path.to_owned()).await.map_err(on_disk)?,
            };
            known = Some((written_at, facts));
            let sent = {
                // The semaphore is never closed.
                let _place = self.places.acquire().await;
                match goal {
                    Goal::Home => {
                        let job = held.task().map(|task| task.job);
                        self.ways.to_manager(&self.session(), job, file, facts).await
                    }
                    Goal::Store { job, place, mode } => {
                        let file = (file, facts.1, lock(&self.executables).has(mode, &facts.0));
                        self.ways.to_store(&self.session(), ((job, held.task()), place), file).await
                    }
                }
            };
            if let Some(what) = sent.as_ref().err().and_then(Trouble::words) {
                waits.progress.note_trouble(what);
            }
            match sent {
                Ok(()) => return Ok(facts),
                Err(Trouble::Full(what)) => {
                    n_away += 1;
                    if !self.is_full_told.swap(true, Ordering::Relaxed) {
                        tracing::warn!(what, which, "outputs wait until the manager has room for them");
                    }
                    sleep(backoff(n_away)).await;
                }
                Err(Trouble::Away(what)) => {
                    n_away += 1;
                    tracing::debug!(what, which, "an output waits for the manager");
                    sleep(backoff(n_away)).await;
                }
                Err(Trouble::Lasting(what) | Trouble::Missing(what)) => return Err(transfer(which, &what)),
                Err(Trouble::Disk(error)) => return Err(node(which, &error)),
                Err(Trouble::Brief(what) | Trouble::Silent { what, .. }) => {
                    n_failed += 1;
                    tracing::warn!(what, which, n_failed, "an output could not be delivered");
                    if n_failed >= N_TRIES {
                        return Err(transfer(which, &what));
                    }
                    sleep(backoff(n_failed + 4)).await;
                }
            }
        }
    }
}
