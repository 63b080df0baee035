//! Orders to platforms.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use scheduler::{
    engine::interface::{
        KnownAllocation,
        platform::scaling::{Provider, Ratio},
    },
    ids::{AllocationId, PlatformId},
    time::Span,
};
use tokio::sync::mpsc;

use super::worker::Worker;
use crate::platforms::uncancelled::Uncancelled;

/// What a platform is to do.
pub(crate) enum Order {
    /// From now on this worker's orders can be carried out.
    Attach { platform: PlatformId, worker: Box<Worker> },
    /// Ask for an allocation that lives so long.
    Submit { platform: PlatformId, allocation: AllocationId, tag: String, walltime: Option<Span> },
    /// These are not wanted any more: they are not asked for if their turn has not come.
    Withdraw { platform: PlatformId, allocations: Vec<AllocationId> },
    /// Take allocations away.
    Cancel { platform: PlatformId, batch_ids: Vec<String> },
    /// List all of ours, among them these.
    List { platform: PlatformId, known: Vec<KnownAllocation> },
    /// Ask how busy it is.
    Load { platform: PlatformId },
    /// Have a cloud's hosts stand for other numbers of vCPUs.
    Scale { platform: PlatformId, ratio: Option<Ratio>, former: Vec<Provider> },
    /// The manager was shut down: when all before is done, leave nothing there. `done` is dropped then.
    Leave { limit: Duration, done: mpsc::Sender<Infallible>, tell: Tell },
}

/// Where each platform with a worker, by its name, puts what it has not cancelled.
pub(crate) type Tell = Arc<Mutex<Vec<(String, Uncancelled)>>>;

impl Order {
    /// Whose order it is; `None`: it is for all.
    pub(super) fn platform(&self) -> Option<PlatformId> {
        match self {
            Order::Attach { platform, .. }
            | Order::Submit { platform, .. }
            | Order::Withdraw { platform, .. }
            | Order::Cancel { platform, .. }
            | Order::List { platform, .. }
            | Order::Load { platform }
            | Order::Scale { platform, .. } => Some(*platform),
            Order::Leave { .. } => None,
        }
    }
}
