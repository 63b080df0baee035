//! The cores of a node that are left for each application.

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

/// The mix of a node, and the cores that each application holds there.
pub(in crate::engine) struct NodeShare<'a> {
    mix: &'a NodeMix,
    mapped: &'a BTreeSet<String>,
    held: BTreeMap<&'a str, u64>,
}

impl<'a> NodeShare<'a> {
    /// Returns the share of a pilot's node; `None` if the plan has no mix for the node.
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

    /// Returns the standing of an application whose task takes `cores` cores, and the cores that the
    /// application may still take before others, if they suffice for one task.
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
