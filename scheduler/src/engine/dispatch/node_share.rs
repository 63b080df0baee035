//! The cores of a node that are still meant for each application.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        dispatch::candidate::cores_of,
        interface::settings::Settings,
        live::{Live, plan::node_mix::NodeMix},
        state::durable::Durable,
    },
    ids::PilotId,
    policy::matching::Standing,
};

/// What is left of a node for each application.
pub(in crate::engine) struct NodeShare<'a> {
    mix: &'a NodeMix,
    mapped: &'a BTreeSet<String>,
    held: BTreeMap<&'a str, u64>,
}

impl<'a> NodeShare<'a> {
    /// Of a pilot's node; `None`: nobody says whom it is meant for.
    pub(in crate::engine) fn of(
        settings: &Settings,
        durable: &'a Durable,
        live: &'a Live,
        pilot: PilotId,
    ) -> Option<NodeShare<'a>> {
        let nodes = &live.plan.nodes;
        let (mix, mapped) = (nodes.mix(pilot)?, nodes.mapped.get(&durable.pilots().get(&pilot)?.platform)?);
        let mut held = BTreeMap::<&str, u64>::new();
        for (job, tasks) in &live.pilots.get(&pilot)?.leases {
            let Some(job) = durable.jobs().get(job) else { continue };
            let cores = held.entry(&job.request.application).or_default();
            *cores = cores.saturating_add(cores_of(settings, job, tasks.len()));
        }
        Some(NodeShare { mix, mapped, held })
    }

    /// How an application stands whose task takes so many cores; and how many it may still have before others, where
    /// that is for a task.
    pub(in crate::engine) fn standing(&self, application: &str, cores: u64) -> (Standing, Option<u64>) {
        let held = self.held.get(application).copied().unwrap_or(0);
        match self.mix.get(application).map(|meant| meant.saturating_sub(held)) {
            Some(left) if left >= cores => (Standing::Within, Some(left)),
            Some(_) => (Standing::Beyond, None),
            None if self.mapped.contains(application) => (Standing::Stranger, None),
            None => (Standing::Within, None),
        }
    }
}
