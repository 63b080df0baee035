//! The platforms on which a history is replayed. A platform on which no task has ever succeeded is left out,
//! because runtimes there are unknown.

use std::collections::BTreeSet;

use scheduler::{
    engine::state::durable::Durable,
    ids::{PilotId, PlatformId},
    pull::TaskNeeds,
    resources::Resources,
};

/// The evidence of ended tasks about platforms.
#[derive(Debug, Default)]
pub(super) struct Shown<'a> {
    /// Applications that have succeeded on a platform.
    done: BTreeSet<(&'a str, PlatformId)>,
    /// Applications that have failed on a platform.
    failed: BTreeSet<(&'a str, PlatformId)>,
}

impl<'a> Shown<'a> {
    /// Notes that this pilot's attempt decided a task of the application.
    pub(super) fn note(
        &mut self,
        durable: &Durable,
        application: &'a str,
        (pilot, is_failure): (PilotId, bool),
    ) {
        let Some(pilot) = durable.pilots().get(&pilot) else { return };
        let shown = if is_failure { &mut self.failed } else { &mut self.done };
        shown.insert((application, pilot.platform));
    }

    /// Returns whether no attempt at a task of the application has succeeded there, and some have failed.
    fn fails(&self, durable: &Durable, application: &str, platform: PlatformId) -> bool {
        let measured = durable.facts().known(platform, application).measured;
        let has_failed = measured.is_some_and(|known| known.loss_rate().is_some());
        (has_failed || self.failed.contains(&(application, platform)))
            && !self.succeeds(durable, application, platform)
    }

    fn succeeds(&self, durable: &Durable, application: &str, platform: PlatformId) -> bool {
        let measured = durable.facts().known(platform, application).measured;
        measured.is_some_and(|known| known.n_done > 0) || self.done.contains(&(application, platform))
    }

    /// Returns whether runtimes on the platform are unknown.
    fn is_unknown(&self, durable: &Durable, platform: PlatformId) -> bool {
        let mut applications: Vec<&str> =
            durable.jobs().values().map(|job| job.request.application.as_str()).collect();
        applications.sort_unstable();
        applications.dedup();
        let says = |application: &&str| durable.facts().runtime_s(platform, application).is_some();
        let is_said = applications.iter().any(says)
            && !applications.iter().any(|application| self.fails(durable, application, platform));
        !is_said && !applications.iter().any(|application| self.succeeds(durable, application, platform))
    }

    /// Returns those of these platforms on which runtimes are known, or all if there is none.
    pub(super) fn known(&self, durable: &Durable, platforms: &[PlatformId]) -> Vec<PlatformId> {
        let known = platforms.iter().copied().filter(|id| !self.is_unknown(durable, *id));
        match known.collect::<Vec<_>>() {
            none if none.is_empty() => platforms.to_vec(),
            some => some,
        }
    }

    /// Returns applications that have never succeeded on one of these platforms, though they have on another:
    /// each with the name of the former.
    pub(super) fn doubted(
        &self,
        durable: &Durable,
        platforms: &[PlatformId],
        applications: &[String],
    ) -> Vec<(String, String)> {
        let mut doubted = Vec::new();
        for id in platforms {
            let fails = applications.iter().filter(|application| self.fails(durable, application, *id));
            // An application that has succeeded nowhere fails again in every task, after the same time.
            let is_doubted = |application: &&String| {
                platforms.iter().any(|other| self.succeeds(durable, application, *other))
            };
            doubted.extend(
                fails.filter(is_doubted).map(|application| (application.clone(), name(durable, *id))),
            );
        }
        doubted
    }
}

/// Returns the name of a platform.
pub(super) fn name(durable: &Durable, id: PlatformId) -> String {
    durable.platforms().get(&id).map(|spec| spec.name.clone()).unwrap_or_default()
}

/// Returns the largest amount of each resource that any pilot of the platform had: every task that ran can
/// run again.
pub(super) fn capacity(durable: &Durable, id: PlatformId) -> Resources {
    let mut capacity = Resources::default();
    for pilot in durable.pilots().values().filter(|pilot| pilot.platform == id) {
        let here = &pilot.node.capacity;
        capacity.cores = capacity.cores.max(here.cores);
        capacity.memory_bytes = capacity.memory_bytes.max(here.memory_bytes);
        capacity.gpus = capacity.gpus.max(here.gpus);
        for (name, amount) in &here.generic {
            let most = capacity.generic.entry(name.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }
    capacity
}

/// Returns whether a task can run on one of these platforms, each with the resources of its pilots.
pub(super) fn has_room(durable: &Durable, platforms: &[(PlatformId, Resources)], needs: &TaskNeeds) -> bool {
    platforms.iter().any(|(id, capacity)| {
        let walltime = durable.platforms().get(id).and_then(|spec| spec.walltime);
        let ends_in_time = walltime.zip(needs.time_limit).is_none_or(|(walltime, limit)| limit < walltime);
        ends_in_time && needs.resources.fits_in(capacity)
    })
}
