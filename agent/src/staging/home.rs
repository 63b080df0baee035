//! Files that tasks have left, on their way to where they go.

use std::{
    collections::BTreeMap,
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
    left, node, place, transfer,
    transfer::Trouble,
    unread,
};
use crate::{client::backoff, opened};

/// Where a file goes.
#[derive(Clone, Copy)]
enum Goal<'p> {
    /// To the manager.
    Home,
    /// To this place in a store.
    Store(JobId, &'p str),
}

/// Where a file goes, as it is told.
fn shown_place(to: &OutputTarget) -> String {
    match to {
        OutputTarget::Home(path) => path.to_string_lossy().into_owned(),
        OutputTarget::Store(place) => place.to_string(),
        OutputTarget::File(path) => format!("file://{}", path.to_string_lossy()),
    }
}

impl Mover {
    pub(super) async fn deliver(
        &self,
        job: JobId,
        outputs: &Outputs,
        folder: &Path,
        held: &Arc<Held>,
    ) -> Result<Vec<OutputFile>, FailureKind> {
        let (mut files, mut taken, mut found) = (Vec::new(), Vec::new(), Vec::new());
        let mut places = BTreeMap::new();
        for output in &outputs.files {
            let (folder, brought, its) = (folder.to_owned(), outputs.brought.clone(), output.clone());
            let named = beside(None, move || Ok(left::files(&folder, &its, &brought))).await;
            for file in named.map_err(|error| node(&output.shown(), &error))?? {
                // Two patterns may mean one file.
                match places.insert(shown_place(&file.to), file.from.clone()) {
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
            let (to, (sha256, bytes)) = match &output.to {
                OutputTarget::Home(to) => {
                    let facts = match packed.remove(&path) {
                        Some(facts) => facts,
                        None => self.bring_out(&path, &output.from, Goal::Home, held).await?,
                    };
                    (to.to_string_lossy().into_owned(), facts)
                }
                OutputTarget::Store(to) => (
                    to.to_string(),
                    self.bring_out(&path, &output.from, Goal::Store(job, &to.to_string()), held).await?,
                ),
                OutputTarget::File(to) => {
                    let _waits =
                        self.waits.begin(held.task(), &format!("its output to reach {}", to.display()), None);
                    let delivered = self.to_shared(path.clone(), to.clone(), held).await;
                    let shown = to.to_string_lossy();
                    (
                        format!("file://{shown}"),
                        delivered.map_err(|error| transfer(&shown, &error.to_string()))?,
                    )
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
            files.push(OutputFile { to, sha256, bytes });
        }
        self.keep(&taken).await;
        Ok(files)
    }

    /// Copies a file to where all nodes see it.
    pub(super) async fn to_shared(
        &self,
        from: PathBuf,
        to: PathBuf,
        held: &Arc<Held>,
    ) -> io::Result<(Digest, u64)> {
        let held = Arc::clone(held);
        beside(Some(&self.shares), move || place::deliver(&from, &to, held.stop())).await
    }

    /// What a file holds.
    pub(super) async fn hashed(&self, path: PathBuf) -> io::Result<(Digest, u64)> {
        beside(Some(&self.disks), move || cache::hash_of(&File::open(path)?)).await
    }

    /// For as long as the manager is away or has no room; what is not taken is tried a few times.
    async fn bring_out(
        &self,
        path: &Path,
        name: &Path,
        goal: Goal<'_>,
        held: &Held,
    ) -> Result<(Digest, u64), FailureKind> {
        let shown = name.to_string_lossy();
        let whither = match goal {
            Goal::Home => "the manager",
            Goal::Store(_, place) => place,
        };
        let waits = self.waits.begin(held.task(), &format!("its output {shown} to reach {whither}"), None);
        let on_disk = |error: io::Error| unread(&shown, &error);
        let (mut n_failed, mut n_away, mut known) = (0, 0, None);
        loop {
            // Whoever shares the folder may have put something else there meanwhile.
            let opened = opened::open(OpenOptions::new().read(true), path);
            let opened = opened.and_then(|file| Ok((file.metadata()?.modified()?, file)));
            let (written_at, file) = opened.map_err(on_disk)?;
            // It may have to wait for hours, and is not read for each try.
            let facts = match known {
                Some((at, facts)) if at == written_at => facts,
                _ => self.hashed(path.to_owned()).await.map_err(on_disk)?,
            };
            known = Some((written_at, facts));
            let sent = {
                // It is never closed.
                let _place = self.places.acquire().await;
                match goal {
                    Goal::Home => self.ways.to_manager(&self.session(), file, facts).await,
                    Goal::Store(job, place) => {
                        self.ways.to_store(&self.session(), (job, place), (file, facts.1)).await
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
                        tracing::warn!(what, %shown, "outputs wait until the manager has room for them");
                    }
                    sleep(backoff(n_away)).await;
                }
                Err(Trouble::Away(what)) => {
                    n_away += 1;
                    tracing::debug!(what, %shown, "an output waits for the manager");
                    sleep(backoff(n_away)).await;
                }
                Err(Trouble::Lasting(what) | Trouble::Missing(what)) => return Err(transfer(&shown, &what)),
                Err(Trouble::Disk(error)) => return Err(node(&shown, &error)),
                Err(Trouble::Brief(what) | Trouble::Silent { what, .. }) => {
                    n_failed += 1;
                    tracing::warn!(what, %shown, n_failed, "an output could not be delivered");
                    if n_failed >= N_TRIES {
                        return Err(transfer(&shown, &what));
                    }
                    sleep(backoff(n_failed + 4)).await;
                }
            }
        }
    }
}
