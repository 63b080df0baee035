//! One worker a platform: one command at a time, its answer back to the engine as an event.

use std::{collections::HashMap, sync::Arc};

use adapters::command::{AdapterError, AllocationRequest, BatchJob, BatchState};
use scheduler::{
    engine::interface::{Event, ListedAllocation, PlatformSpec, SubmitOutcome},
    ids::{AllocationId, PlatformId},
    time::Time,
};
use tokio::sync::mpsc;

use crate::{
    clock::Clock,
    handle::Handle,
    place::{Ground, Place},
};

/// What a platform is to do.
pub(crate) enum Order {
    /// From now on this worker's orders can be carried out.
    Attach { platform: PlatformId, worker: Box<Worker> },
    /// Ask for an allocation.
    Submit { platform: PlatformId, allocation: AllocationId, tag: String },
    /// Take allocations away.
    Cancel { platform: PlatformId, batch_ids: Vec<String> },
    /// List all of ours.
    List { platform: PlatformId },
}

/// Makes the join document for the allocation with that tag, whose pilots stand on that ground.
pub(crate) type MakeJoin = Arc<dyn Fn(&PlatformSpec, &Ground, &str) -> Vec<u8> + Send + Sync>;

/// What a platform's worker needs.
pub(crate) struct Worker {
    pub(crate) spec: PlatformSpec,
    pub(crate) place: Place,
    pub(crate) tag_prefix: String,
    pub(crate) make_join: MakeJoin,
    pub(crate) handle: Handle,
    pub(crate) clock: Clock,
}

impl Order {
    fn platform(&self) -> PlatformId {
        match self {
            Order::Attach { platform, .. }
            | Order::Submit { platform, .. }
            | Order::Cancel { platform, .. }
            | Order::List { platform } => *platform,
        }
    }
}

/// Hands orders to their platform's worker. Orders may come before their platform is attached: they wait.
pub(crate) async fn dispatch(mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut workers: HashMap<PlatformId, mpsc::UnboundedSender<Order>> = HashMap::new();
    let mut early: Vec<Order> = Vec::new();
    while let Some(order) = orders.recv().await {
        if let Order::Attach { platform, worker } = order {
            let (to_worker, from_dispatch) = mpsc::unbounded_channel();
            tokio::spawn(work(*worker, from_dispatch));
            let (now, later) = early.into_iter().partition(|order: &Order| order.platform() == platform);
            early = later;
            for order in now {
                // The worker was just started and ends only when this sender goes.
                let _ = to_worker.send(order);
            }
            workers.insert(platform, to_worker);
            continue;
        }
        match workers.get(&order.platform()) {
            Some(worker) => {
                // As above.
                let _ = worker.send(order);
            }
            None => early.push(order),
        }
    }
}

async fn work(mut worker: Worker, mut orders: mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        let event = match order {
            Order::Submit { allocation, tag, .. } => Some(worker.submit(allocation, tag).await),
            Order::List { platform } => Some(worker.list(platform).await),
            Order::Cancel { batch_ids, .. } => {
                worker.cancel(&batch_ids).await;
                None
            }
            Order::Attach { .. } => None,
        };
        if let Some(event) = event
            && worker.handle.tell(event).await.is_err()
        {
            return;
        }
    }
}

impl Worker {
    async fn submit(&mut self, allocation: AllocationId, tag: String) -> Event {
        let outcome = match self.place.ground().await {
            Ok(ground) => {
                let request = AllocationRequest {
                    join: (self.make_join)(&self.spec, &ground, &tag),
                    folder: ground.pilot_folder(&tag),
                    tag: tag.clone(),
                    n_nodes: 1,
                    capacity: self.spec.capacity.clone(),
                    walltime: self.spec.walltime,
                };
                self.ask_for(&request).await
            }
            Err(what) => SubmitOutcome::Refused(what),
        };
        tracing::info!(platform = self.spec.name, %allocation, tag, ?outcome, "allocation asked for");
        Event::AllocationAnswered { allocation, outcome }
    }

    async fn ask_for(&self, request: &AllocationRequest) -> SubmitOutcome {
        let adapter = self.place.adapter();
        match self.place.run(adapter.submit(request)).await {
            Ok(output) => match adapter.read_submit(&output) {
                Ok(batch_id) => SubmitOutcome::Accepted(batch_id),
                Err(error @ AdapterError::Refused(_)) => SubmitOutcome::Refused(error.to_string()),
                Err(error @ AdapterError::NotUnderstood(_)) => SubmitOutcome::Unknown(error.to_string()),
            },
            Err(error) if error.is_nothing_done() => SubmitOutcome::Refused(error.to_string()),
            Err(error) => SubmitOutcome::Unknown(error.to_string()),
        }
    }

    async fn list(&mut self, platform: PlatformId) -> Event {
        let asked_at: Time = self.clock.now();
        let listed = match self.place.ground().await {
            Ok(_) => self.ask_what_is_there().await,
            Err(what) => Err(what),
        };
        if let Err(what) = &listed {
            tracing::warn!(platform = self.spec.name, what, "listing failed");
        }
        let result = listed.map(|jobs| {
            // Others may have jobs in the same account.
            let ours = jobs.into_iter().filter(|job| job.tag.starts_with(&self.tag_prefix));
            let ours = ours.inspect(|job| {
                if let BatchState::Stuck(why) = &job.state {
                    tracing::warn!(
                        platform = self.spec.name,
                        job.tag,
                        job.id,
                        why,
                        "waits for what never comes"
                    );
                }
            });
            let seen = ours.map(|job| ListedAllocation {
                is_ended: job.state == BatchState::Ended,
                tag: job.tag,
                batch_id: job.id,
            });
            seen.collect()
        });
        Event::PlatformListed { platform, asked_at, result }
    }

    async fn ask_what_is_there(&self) -> Result<Vec<BatchJob>, String> {
        let adapter = self.place.adapter();
        let output =
            self.place.run(adapter.list(&self.tag_prefix)).await.map_err(|error| error.to_string())?;
        adapter.read_list(&output).map_err(|error| error.to_string())
    }

    async fn cancel(&mut self, batch_ids: &[String]) {
        if let Err(what) = self.place.ground().await {
            tracing::warn!(platform = self.spec.name, ?batch_ids, what, "cancel failed");
            return;
        }
        match self.place.run(self.place.adapter().cancel(batch_ids)).await {
            Ok(output) if output.code == Some(0) => {}
            // The next listing shows it again, and it is cancelled again.
            Ok(output) => {
                tracing::warn!(platform = self.spec.name, ?batch_ids, what = output.words(), "cancel failed")
            }
            Err(error) => tracing::warn!(platform = self.spec.name, ?batch_ids, %error, "cancel failed"),
        }
    }
}
