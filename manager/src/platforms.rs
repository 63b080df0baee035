//! One worker a platform: one command at a time, its answer back to the engine as an event.

pub mod agent_file;
pub(crate) mod attach;
pub(crate) mod documents;
pub(crate) mod identities;
pub(crate) mod order;
pub mod place;
pub(crate) mod uncancelled;
pub(crate) mod waiting_orders;
pub(crate) mod worker;

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use scheduler::{
    engine::interface::{Event, LeftThere, platform::scaling::ScaleTrouble},
    ids::PlatformId,
};
use tokio::{sync::mpsc, task::JoinSet};

use crate::platforms::{uncancelled::Uncancelled, waiting_orders::WaitingOrders};
use order::{Order, Tell};
use worker::Worker;

/// While a connection waits for a person it is looked so often whether one has opened it.
const LOOK_FOR_PERSON: Duration = Duration::from_secs(1);

/// Hands orders to their platform's worker. Orders may come before their platform is attached: they wait.
pub(crate) async fn dispatch(mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut workers: HashMap<PlatformId, Line> = HashMap::new();
    let mut early: Vec<Order> = Vec::new();
    while let Some(order) = orders.recv().await {
        match order {
            Order::Attach { platform, worker } => {
                let (orders, from_dispatch) = mpsc::unbounded_channel();
                let (name, uncancelled) = (worker.spec.name.clone(), worker.uncancelled.clone());
                let line = Line { orders, n_lists: Arc::default(), name, uncancelled };
                tokio::spawn(work(platform, *worker, from_dispatch, line.n_lists.clone()));
                early
                    .extract_if(.., |order| order.platform() == Some(platform))
                    .for_each(|order| line.give(order));
                workers.insert(platform, line);
            }
            Order::Leave { limit, done, tell } => {
                let lines = workers.values().map(|line| (line.name.clone(), line.uncancelled.clone()));
                tell.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
                for worker in workers.values() {
                    worker.give(Order::Leave { limit, done: done.clone(), tell: tell.clone() });
                }
            }
            Order::Submit { platform, .. }
            | Order::Withdraw { platform, .. }
            | Order::Cancel { platform, .. }
            | Order::List { platform, .. }
            | Order::Load { platform }
            | Order::Scale { platform, .. } => match workers.get(&platform) {
                Some(worker) => worker.give(order),
                None => early.push(order),
            },
        }
    }
}

/// Returns when every platform's worker has done what it was told and has left, or it takes longer than that. Gives what
/// could not be cancelled.
pub(crate) async fn leave(orders: &mpsc::UnboundedSender<Order>, limit: Duration) -> Vec<LeftThere> {
    let (done, mut all_done) = mpsc::channel(1);
    let tell = Tell::default();
    // Without a dispatcher nobody holds `done`, and the wait is over at once.
    let _ = orders.send(Order::Leave { limit, done, tell: tell.clone() });
    if tokio::time::timeout(limit, all_done.recv()).await.is_err() {
        tracing::warn!(
            "a platform does not answer; what was not cancelled there is cancelled by the next start"
        );
    }
    let told = tell.lock().unwrap_or_else(PoisonError::into_inner);
    let mut left: Vec<LeftThere> =
        told.iter().filter_map(|(name, uncancelled)| uncancelled.left(name, limit)).collect();
    left.sort_by(|one, other| one.platform.cmp(&other.platform));
    left
}

/// The way to a worker.
struct Line {
    orders: mpsc::UnboundedSender<Order>,
    /// Listings among them.
    n_lists: Arc<AtomicUsize>,
    /// The platform's name.
    name: String,
    uncancelled: Uncancelled,
}

impl Line {
    fn give(&self, order: Order) {
        if matches!(order, Order::List { .. }) {
            self.n_lists.fetch_add(1, Ordering::Relaxed);
        }
        if let Order::Cancel { batch_ids, .. } = &order {
            self.uncancelled.order(batch_ids, Instant::now());
        }
        // The worker ends with the manager, or when this sender goes.
        let _ = self.orders.send(order);
    }
}

async fn work(
    platform: PlatformId,
    mut worker: Worker,
    mut orders: mpsc::UnboundedReceiver<Order>,
    n_lists: Arc<AtomicUsize>,
) {
    let mut waiting = WaitingOrders::default();
    loop {
        let order = tokio::select! {
            order = waiting.next(platform, &mut orders) => order,
            () = tokio::time::sleep(LOOK_FOR_PERSON), if worker.waiting.is_some() => {
                if worker.is_connected_by_person().await && worker.tell_waiting(platform).await.is_err() {
                    return;
                }
                continue;
            }
            Some(over) = worker.watches.join_next() => {
                if worker.is_over(over.ok().flatten()) {
                    let known = std::mem::take(&mut worker.known);
                    let event = worker.list(platform, known).await;
                    if worker.handle.tell(event).await.is_err() {
                        return;
                    }
                }
                continue;
            }
        };
        let Some(order) = order else { return };
        let event = match order {
            Order::Submit { allocation, tag, walltime, .. } => {
                Some(worker.submit(allocation, tag, walltime).await)
            }
            Order::Withdraw { allocations, .. } => {
                worker.withdraw(&allocations).await;
                None
            }
            // Behind slow answers they pile up; the last of them says what all would.
            Order::List { .. } if n_lists.fetch_sub(1, Ordering::Relaxed) > 1 => None,
            Order::List { platform, known } => Some(worker.list(platform, known).await),
            // A listing that failed and comes again is more urgent than that.
            Order::Load { .. } if n_lists.load(Ordering::Relaxed) > 0 => None,
            Order::Load { platform } => worker.load(platform).await,
            Order::Scale { platform, ratio, former } => {
                let result = worker.place.scale(ratio, &former).await;
                if let Err(ScaleTrouble::Refused(why) | ScaleTrouble::Unknown(why)) = &result {
                    tracing::warn!(platform = worker.spec.name, why, "hosts were not given other vCPUs");
                }
                Some(Event::RatiosAnswered { platform, asked: ratio, result })
            }
            Order::Cancel { batch_ids, .. } => {
                worker.cancel(batch_ids).await;
                None
            }
            Order::Leave { limit, done, tell: _ } => {
                worker.leave(limit).await;
                // A listing that began now would outlive the manager.
                worker.watches = JoinSet::new();
                drop(done);
                None
            }
            Order::Attach { .. } => None,
        };
        // First that a person is needed, so that what it has made impossible is no failure.
        if worker.tell_waiting(platform).await.is_err() {
            return;
        }
        if let Some(event) = event
            && worker.handle.tell(event).await.is_err()
        {
            return;
        }
    }
}
