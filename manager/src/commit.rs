//! Group commit: all records that have arrived go to the store together, and only then are their
//! effects performed. A store error ends the manager rather than acknowledge what is not kept.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use scheduler::engine::interface::{Answer, Effect, RequestId, Step};
use tokio::sync::oneshot;

use crate::{
    budgets::Budgets,
    numbers::Numbers,
    reserve::Reserve,
    store::{Store, StoreError},
};

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

/// Commits what has arrived, again and again, until the engine is gone or the store fails.
pub(crate) fn run(
    mut store: Store,
    (mut numbers, mut budgets, reserve): (Numbers, Budgets, Reserve),
    pending: Receiver<Pending>,
    mut perform: impl FnMut(Committed, Vec<(RequestId, oneshot::Sender<Answer>)>),
) -> Result<(), StoreError> {
    while let Ok(first) = pending.recv() {
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
        }
        perform(Committed(effects), replies);
    }
    Ok(())
}
