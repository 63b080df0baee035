//! Group commit: all records that have arrived go to the store together, and only then are their
//! effects performed. A store error ends the manager rather than acknowledge what is not kept.

use std::{
    collections::VecDeque,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    time::{Duration, Instant},
};

use scheduler::{
    engine::{
        Step,
        interface::{Answer, Effect, RequestId},
        record::Record,
    },
    ids::JobId,
};
use tokio::sync::oneshot;

use crate::{
    budgets::Budgets,
    numbers::Numbers,
    reserve::Reserve,
    store::{Store, StoreError},
};

/// The commit thread removes rows of purged jobs when no step has come for so long.
const IDLE: Duration = Duration::from_millis(5);
/// Where steps come all the time, it removes some rows once in this time.
const BUSY: Duration = Duration::from_secs(1);
/// After a failure it tries again so much later.
const AGAIN: Duration = Duration::from_secs(60);
/// Steps handed to the commit thread and not yet committed at most; the engine waits beyond.
const STEPS_MAX: usize = 4096;

/// A step on its way to the store, with the replies that were asked for since the last one.
pub(crate) struct Pending {
    pub(crate) step: Step,
    pub(crate) replies: Vec<(RequestId, oneshot::Sender<Answer>)>,
}

/// Effects whose records are durable. Only this file makes one.
pub(crate) struct Committed(Vec<Effect>);

impl Committed {
    /// The effects, in order.
    pub(crate) fn into_effects(self) -> Vec<Effect> {
        self.0
    }
}

/// The way from the engine's thread to the commit thread.
pub(crate) fn channel() -> (SyncSender<Pending>, Receiver<Pending>) {
    sync_channel(STEPS_MAX)
}

/// Purged jobs whose rows are still in the store.
struct Purged {
    jobs: VecDeque<JobId>,
    /// No row is removed before this time, as the last attempt failed.
    not_before: Instant,
    /// From this time on some rows are removed even if a step waits.
    overdue: Instant,
}

impl Purged {
    fn new(jobs: Vec<JobId>) -> Purged {
        let now = Instant::now();
        Purged { jobs: jobs.into(), not_before: now, overdue: now + BUSY }
    }

    /// Waits for the next step, and removes rows meanwhile. `None`: the engine has gone.
    fn next_step(&mut self, store: &mut Store, pending: &Receiver<Pending>) -> Option<Pending> {
        while let Some(job) = self.jobs.front().copied() {
            let now = Instant::now();
            if now < self.overdue {
                match pending.recv_timeout(self.not_before.saturating_duration_since(now).max(IDLE)) {
                    Ok(next) => return Some(next),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
            self.remove(store, job);
        }
        pending.recv().ok()
    }

    fn remove(&mut self, store: &mut Store, job: JobId) {
        self.overdue = Instant::now() + BUSY;
        match store.remove_purged(job) {
            Ok(true) => {}
            Ok(false) => _ = self.jobs.pop_front(),
            Err(error) => {
                tracing::warn!(%error, %job, "rows of a purged job are removed later");
                self.not_before = Instant::now() + AGAIN;
                self.overdue = self.not_before;
            }
        }
    }

    fn note(&mut self, records: &[Record]) {
        self.jobs.extend(records.iter().filter_map(|record| match record {
            Record::JobPurged { job, .. } => Some(*job),
            _ => None,
        }));
    }
}

/// Commits what has arrived, again and again, until the engine is gone or the store fails.
pub(crate) fn run(
    mut store: Store,
    (mut numbers, mut budgets, reserve): (Numbers, Budgets, Reserve),
    pending: Receiver<Pending>,
    mut perform: impl FnMut(Committed, Vec<(RequestId, oneshot::Sender<Answer>)>),
) -> Result<(), StoreError> {
    let mut purged = Purged::new(store.purged_and_left()?);
    while let Some(first) = purged.next_step(&mut store, &pending) {
        let mut records = first.step.records;
        let mut effects = first.step.effects;
        let mut replies = first.replies;
        while let Ok(next) = pending.try_recv() {
            records.extend(next.step.records);
            effects.extend(next.step.effects);
            replies.extend(next.replies);
        }
        if !records.is_empty() {
            budgets.cut(&mut records, &store)?;
            store.commit_making_room(&records, || reserve.release())?;
            reserve.look();
            budgets.note_files(&records);
            numbers.note(&records);
            purged.note(&records);
        }
        perform(Committed(effects), replies);
    }
    Ok(())
}
