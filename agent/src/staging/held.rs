//! What is held for a token while anybody works for it, and the work that keeps a disk busy: it is done beside the loop,
//! which goes on with transfers meanwhile.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use protocol::job::TaskInput;
use scheduler::{
    digest::Digest,
    ids::{JobId, TaskId},
};
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{
    Outputs,
    cache::{Cache, Pin},
    lock,
    place::Stop,
};

/// Files that were brought to a task's folder, by their paths there: see [`Outputs`].
#[derive(Default)]
struct Inputs {
    brought: HashSet<PathBuf>,
    copied: HashSet<PathBuf>,
    plain: HashSet<PathBuf>,
}

/// The pins of a token. Who works for it beside the loop holds this too, and cannot be ended from outside: what it reads
/// stays until it has stopped by itself.
pub(super) struct Held {
    cache: Arc<Cache>,
    pins: Mutex<Vec<Pin>>,
    stop: Stop,
    task: Option<TaskId>,
    drawn: u64,
    /// The task's folder, where files are brought there.
    folder: Option<PathBuf>,
    inputs: Mutex<Inputs>,
}

impl Held {
    pub(super) fn new(cache: &Arc<Cache>) -> Held {
        Held {
            cache: Arc::clone(cache),
            pins: Mutex::default(),
            stop: Stop::default(),
            task: None,
            drawn: 0,
            folder: None,
            inputs: Mutex::default(),
        }
    }

    /// For this task.
    pub(super) fn of(mut self, task: TaskId) -> Held {
        self.task = Some(task);
        self
    }

    /// For a job that has drawn this number: [`super::Inputs::drawn`].
    pub(super) fn drawn(mut self, drawn: u64) -> Held {
        self.drawn = drawn;
        self
    }

    /// For files that are brought there.
    pub(super) fn for_folder(mut self, folder: &Path) -> Held {
        self.folder = Some(folder.to_owned());
        self
    }

    /// The task's folder, where files are brought there.
    pub(super) fn folder(&self) -> Option<&PathBuf> {
        self.folder.as_ref()
    }

    /// It comes to the folder.
    pub(super) fn note_input(&self, input: &TaskInput) {
        let mut inputs = lock(&self.inputs);
        if !input.writable {
            inputs.brought.insert(input.to.clone());
        }
        if !input.executable {
            let its_kind = if input.writable { &mut inputs.copied } else { &mut inputs.plain };
            its_kind.insert(input.to.clone());
        }
    }

    /// Names all of them.
    pub(super) fn add_inputs(&self, outputs: &mut Outputs) {
        let inputs = lock(&self.inputs);
        outputs.brought.extend(inputs.brought.iter().cloned());
        outputs.copied.extend(inputs.copied.iter().cloned());
        outputs.plain.extend(inputs.plain.iter().cloned());
    }

    /// For which task it is held.
    pub(super) fn task(&self) -> Option<TaskId> {
        self.task
    }

    /// Names the job uniquely within its manager's store. The number alone does not: a store that is put back with its
    /// whole folder gives numbers out again.
    pub(super) fn name_of(&self, job: JobId) -> String {
        match self.drawn {
            0 => job.to_string(),
            drawn => format!("{job} {drawn:016x}"),
        }
    }

    /// The object, if it is here and what it should be, for as long as this is held.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn pin(&self, sha256: &Digest) -> io::Result<Option<Pin>> {
        let pin = self.cache.pin(sha256)?;
        lock(&self.pins).extend(pin.clone());
        Ok(pin)
    }

    /// Nobody wants it any more.
    pub(super) fn end(&self) {
        self.stop.set();
    }

    /// What says so to who is in the middle of a file.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.pins).iter().for_each(|pin| self.cache.unpin(&pin.sha256));
    }
}

/// Does what blocks beside the loop, where it is likely to take long in one of a few places. Goes on if it is not
/// waited for any more, and keeps its place.
///
/// # Errors
/// Those of the work.
pub(super) async fn beside<T: Send + 'static>(
    places: Option<&Arc<Semaphore>>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let place = match places {
        // It is never closed.
        Some(places) => Arc::clone(places).acquire_owned().await.ok(),
        None => None,
    };
    let done = spawn_blocking(move || {
        let done = work();
        drop(place);
        done
    });
    done.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
