//! Parked pulls, by request and by the cores that their pilots have free.

use std::collections::{BTreeMap, BTreeSet};

use crate::{engine::interface::RequestId, ids::PilotId, resources::Resources};

/// Parked pulls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedPulls {
    /// Whose each request is.
    pub by_request: BTreeMap<RequestId, PilotId>,
    /// Those of pilots that take tasks: by what the pilot has, then by the cores it has free.
    pub takers: BTreeMap<Resources, BTreeSet<(u32, PilotId)>>,
}

impl ParkedPulls {
    /// Kinds of pilots on which a task that needs this can run.
    pub fn kinds_for(&self, needs: &Resources) -> Vec<Resources> {
        self.takers.keys().filter(|capacity| needs.fits_in(capacity)).cloned().collect()
    }

    /// The first pilot of a kind at or after a place in its order.
    pub fn taker_from(&self, kind: &Resources, from: (u32, PilotId)) -> Option<(u32, PilotId)> {
        self.takers.get(kind)?.range(from..).next().copied()
    }

    pub(in crate::engine) fn list(&mut self, capacity: &Resources, free_cores: u32, id: PilotId) {
        match self.takers.get_mut(capacity) {
            Some(takers) => _ = takers.insert((free_cores, id)),
            None => _ = self.takers.insert(capacity.clone(), [(free_cores, id)].into()),
        }
    }

    pub(in crate::engine) fn unlist(&mut self, capacity: &Resources, free_cores: u32, id: PilotId) {
        let Some(takers) = self.takers.get_mut(capacity) else { return };
        takers.remove(&(free_cores, id));
        if takers.is_empty() {
            self.takers.remove(capacity);
        }
    }
}
