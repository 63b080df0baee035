//! One worker a platform: one command at a time, its answer back to the engine as an event.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use adapters::{
    Adapter,
    command::{AdapterError, AllocationRequest, BatchState, Command, Output},
    transport::{Transport, TransportError},
};
use scheduler::{
    engine::interface::{Event, ListedAllocation, PlatformSpec, SubmitOutcome},
    ids::{AllocationId, PlatformId},
    time::Time,
};
use tokio::sync::mpsc;

use crate::{clock::Clock, handle::Handle};

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

/// Makes the join document for the pilots that keep their files in that folder and have that tag.
pub(crate) type MakeJoin = Arc<dyn Fn(&PlatformSpec, &str, &str) -> Vec<u8> + Send + Sync>;

/// What a platform's worker needs.
pub(crate) struct Worker {
    pub(crate) spec: PlatformSpec,
    pub(crate) adapter: Box<dyn Adapter>,
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) tag_prefix: String,
    pub(crate) make_join: MakeJoin,
    /// Where its pilots keep their files, each in a folder of its own.
    pub(crate) folder: PathBuf,
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

async fn work(worker: Worker, mut orders: mpsc::UnboundedReceiver<Order>) {
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
    async fn submit(&self, allocation: AllocationId, tag: String) -> Event {
        let folder = self.folder.join(&tag).to_string_lossy().into_owned();
        let request = AllocationRequest {
            join: (self.make_join)(&self.spec, &folder, &tag),
            folder,
            tag,
            n_nodes: 1,
            capacity: self.spec.capacity.clone(),
            walltime: self.spec.walltime,
        };
        let outcome = match self.run(self.adapter.submit(&request)).await {
            Ok(output) => match self.adapter.read_submit(&output) {
                Ok(batch_id) => SubmitOutcome::Accepted(batch_id),
                Err(error @ AdapterError::Refused(_)) => SubmitOutcome::Refused(error.to_string()),
                Err(error @ AdapterError::NotUnderstood(_)) => SubmitOutcome::Unknown(error.to_string()),
            },
            Err(error @ TransportError::NotStarted { .. }) => SubmitOutcome::Refused(error.to_string()),
            Err(error) => SubmitOutcome::Unknown(error.to_string()),
        };
        tracing::info!(platform = self.spec.name, %allocation, tag = request.tag, ?outcome, "allocation asked for");
        Event::AllocationAnswered { allocation, outcome }
    }

    async fn list(&self, platform: PlatformId) -> Event {
        let asked_at: Time = self.clock.now();
        let listed = match self.run(self.adapter.list(&self.tag_prefix)).await {
            Ok(output) => self.adapter.read_list(&output).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
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

    async fn cancel(&self, batch_ids: &[String]) {
        match self.run(self.adapter.cancel(batch_ids)).await {
            Ok(output) if output.code == Some(0) => {}
            // The next listing shows it again, and it is cancelled again.
            Ok(output) => {
                tracing::warn!(platform = self.spec.name, ?batch_ids, what = output.words(), "cancel failed")
            }
            Err(error) => tracing::warn!(platform = self.spec.name, ?batch_ids, %error, "cancel failed"),
        }
    }

    async fn run(&self, command: Command) -> Result<Output, TransportError> {
        tracing::debug!(platform = self.spec.name, argv = ?command.argv, "command");
        self.transport.run(&command).await
    }
}
