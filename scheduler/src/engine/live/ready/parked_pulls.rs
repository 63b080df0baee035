//! Parked pulls, by request and by the free cores of their pilots.

use std::collections::{BTreeMap, BTreeSet};

use crate::{engine::interface::RequestId, ids::PilotId, resources::Resources};

/// Parked pulls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedPulls {
    /// The pilot of each request.
    pub by_request: BTreeMap<RequestId, PilotId>,
    /// The pilots that take tasks, by their capacity and then by their free cores.
    pub takers: BTreeMap<Resources, BTreeSet<(u32, PilotId)>>,
}

impl ParkedPulls {
    /// Returns the capacities in which a task with these needs fits.
    pub fn kinds_for(&self, needs: &Resources) -> Vec<Resources> {
        self.takers.keys().filter(|capacity| needs.fits_in(capacity)).cloned().collect()
    }

    /// Returns the first pilot with this capacity at or after a position.
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
