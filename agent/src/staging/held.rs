//! The files that are held for a token while work for it goes on, and blocking disk work, which runs beside
//! the event loop so that transfers go on.

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

/// The files that were brought to a task's folder, by their paths in it: see [`Outputs`].
#[derive(Default)]
struct Inputs {
    brought: HashSet<PathBuf>,
    copied: HashSet<PathBuf>,
    plain: HashSet<PathBuf>,
}

/// The pins of a token. Blocking work for the token also holds this. It cannot be cancelled from outside, so
/// its files stay until it stops by itself.
pub(super) struct Held {
    cache: Arc<Cache>,
    pins: Mutex<Vec<Pin>>,
    stop: Stop,
    task: Option<TaskId>,
    drawn: u64,
    /// The task's folder, if files are brought to it.
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

    /// Sets the task.
    pub(super) fn of(mut self, task: TaskId) -> Held {
        self.task = Some(task);
        self
    }

    /// Sets the random number of the job: [`super::Inputs::drawn`].
    pub(super) fn drawn(mut self, drawn: u64) -> Held {
        self.drawn = drawn;
        self
    }

    /// Sets the folder to which files are brought.
    pub(super) fn for_folder(mut self, folder: &Path) -> Held {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Returns the task's folder, if files are brought to it.
    pub(super) fn folder(&self) -> Option<&PathBuf> {
        self.folder.as_ref()
    }

    /// Notes an input that comes to the folder.
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

    /// Adds all noted inputs to `outputs`.
    pub(super) fn add_inputs(&self, outputs: &mut Outputs) {
        let inputs = lock(&self.inputs);
        outputs.brought.extend(inputs.brought.iter().cloned());
        outputs.copied.extend(inputs.copied.iter().cloned());
        outputs.plain.extend(inputs.plain.iter().cloned());
    }

    /// Returns the task for which this is held.
    pub(super) fn task(&self) -> Option<TaskId> {
        self.task
    }

    /// Returns a name of the job that is unique in its manager's store. The id alone is not: a store that is
    /// restored from a backup with its whole folder assigns ids again.
    pub(super) fn name_of(&self, job: JobId) -> String {
        match self.drawn {
            0 => job.to_string(),
            drawn => format!("{job} {drawn:016x}"),
        }
    }

    /// Returns the object, pinned as long as this is held, if it is here and correct.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn pin(&self, sha256: &Digest) -> io::Result<Option<Pin>> {
        let pin = self.cache.pin(sha256)?;
        lock(&self.pins).extend(pin.clone());
        Ok(pin)
    }

    /// Stops the work, because nobody wants it any more.
    pub(super) fn end(&self) {
        self.stop.set();
    }

    /// Returns the flag that blocking work checks.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.pins).iter().for_each(|pin| self.cache.unpin(&pin.sha256));
    }
}

/// Runs blocking work beside the event loop, limited by `places` if it is likely to take long. The work goes
/// on and keeps its place even if nobody waits for it any more.
///
/// # Errors
/// Those of the work.
pub(super) async fn beside<T: Send + 'static>(
    places: Option<&Arc<Semaphore>>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let place = match places {
        // The semaphore is never closed.
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
