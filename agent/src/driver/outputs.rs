//! Saves the output of running tasks to the node's disk once a second, for a later look at a pilot that was
//! killed. Tasks of less than a second cost nothing here.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use protocol::pilot::Tail;
use scheduler::{ids::PilotId, results::TaskOutput};
use tokio::sync::mpsc::unbounded_channel;

use super::{Driver, News};
use crate::{
    archive::{Appended, OutputFile, PIECE_BYTES_MAX},
    spawn::{Peek, Peeked},
};

/// Interval between two saves, and the time that a task must have run before the first one.
const INTERVAL: Duration = Duration::from_secs(1);

/// The saved output of running tasks.
pub(super) struct Outputs {
    file: OutputFile,
    /// Number of saved bytes of each running task's streams, by token.
    known: HashMap<u64, [u64; 2]>,
    due_at: Option<Instant>,
    /// Whether new output is being collected.
    is_looking: bool,
}

impl Outputs {
    /// Returns an empty state for `pilot`, with its file in `folder`.
    pub(super) fn new(folder: &Path, pilot: PilotId) -> Outputs {
        Outputs {
            file: OutputFile::new(folder, pilot.0),
            known: HashMap::new(),
            due_at: None,
            is_looking: false,
        }
    }

    /// Schedules a save, because a task has started.
    pub(super) fn arm(&mut self) {
        if self.is_looking {
            return;
        }
        self.due_at.get_or_insert_with(|| Instant::now() + INTERVAL);
    }

    /// Returns the time of the next save.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Forgets an ended task: its report has all of its output.
    pub(super) fn forget(&mut self, token: u64) {
        if self.known.remove(&token).is_some() && self.known.is_empty() {
            self.file.empty();
        }
    }

    /// Removes the file, because all output is reported.
    pub(super) fn remove(&mut self) {
        self.file.remove();
    }
}

impl Driver {
    /// Collects new output of the tasks that have run for a while.
    pub(super) fn keep_outputs(&mut self) {
        (self.outputs.due_at, self.outputs.is_looking) = (None, true);
        let now = Instant::now();
        let (tell, mut peeked) = unbounded_channel::<(u64, Tail)>();
        for (token, running) in &self.running {
            if now.duration_since(running.since) < INTERVAL {
                continue;
            }
            let (token, task, attempt, tell) = (*token, running.task, running.attempt, tell.clone());
            let from = self.outputs.known.get(&token).copied().unwrap_or_default();
            let tell = Box::new(move |Peeked { streams: [(stdout_at, stdout), (stderr_at, stderr)] }| {
                let written = TaskOutput { index: task.index, stdout, stderr };
                let tail = Tail { job: task.job, attempt, run: token, stdout_at, stderr_at, written };
                // The receiver is gone only when the pilot has ended.
                let _ = tell.send((token, tail));
            });
            self.spawner.peek(Peek { token, slot: running.slot, from, n_max: PIECE_BYTES_MAX, tell });
        }
        drop(tell);
        let news = self.news.clone();
        tokio::spawn(async move {
            let mut pieces = Vec::new();
            while let Some((token, tail)) = peeked.recv().await {
                if tail.written.stdout.len() + tail.written.stderr.len() > 0 {
                    pieces.push((token, tail));
                }
            }
            // The receiver is gone only when the pilot has ended.
            let _ = news.send(News::Wrote(pieces));
        });
    }

    /// Writes collected output to the disk, except that of tasks that have ended meanwhile.
    pub(super) fn on_wrote(&mut self, mut pieces: Vec<(u64, Tail)>) {
        self.outputs.is_looking = false;
        pieces.retain(|(token, _)| self.running.contains_key(token));
        let (tokens, pieces): (Vec<u64>, Vec<Tail>) = pieces.into_iter().unzip();
        match self.outputs.file.append(&pieces) {
            Appended::Whole => {
                let end = |at: u64, bytes: &[u8]| at.saturating_add(bytes.len() as u64);
                let ends = |tail: &Tail| {
                    [end(tail.stdout_at, &tail.written.stdout), end(tail.stderr_at, &tail.written.stderr)]
                };
                self.outputs.known.extend(tokens.into_iter().zip(pieces.iter().map(ends)));
            }
            Appended::Not => {}
            Appended::Full => {
                let share = OutputFile::share(2 * self.outputs.known.len() as u64);
                let ends = self.outputs.known.values_mut().flatten();
                ends.for_each(|end| *end = end.saturating_sub(share));
            }
        }
        if !self.running.is_empty() {
            self.outputs.arm();
        }
    }
}
