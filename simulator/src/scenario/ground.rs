//! On which platforms a history is played again. Where no task has ever succeeded nobody knows how long one takes.

use std::collections::BTreeSet;

use scheduler::{
    engine::state::durable::Durable,
    ids::{PilotId, PlatformId},
    pull::TaskNeeds,
    resources::Resources,
};

/// What tasks that are over have shown of platforms.
#[derive(Debug, Default)]
pub(super) struct Shown<'a> {
    /// An application has succeeded there.
    done: BTreeSet<(&'a str, PlatformId)>,
    /// One has failed there.
    failed: BTreeSet<(&'a str, PlatformId)>,
}

impl<'a> Shown<'a> {
    /// A task of the application was decided by that pilot.
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

    /// Whether no attempt at a task of the application has succeeded there, and some have failed.
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

    /// Whether nobody knows how long tasks take there.
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

    /// Of these platforms those where something is known, or all if that is so nowhere.
    pub(super) fn known(&self, durable: &Durable, platforms: &[PlatformId]) -> Vec<PlatformId> {
        let known = platforms.iter().copied().filter(|id| !self.is_unknown(durable, *id));
        match known.collect::<Vec<_>>() {
            none if none.is_empty() => platforms.to_vec(),
            some => some,
        }
    }

    /// Applications of which nothing has succeeded on one of these platforms, though some has on another: each with the
    /// name of the one.
    pub(super) fn doubted(
        &self,
        durable: &Durable,
        platforms: &[PlatformId],
        applications: &[String],
    ) -> Vec<(String, String)> {
        let mut doubted = Vec::new();
        for id in platforms {
            let fails = applications.iter().filter(|application| self.fails(durable, application, *id));
            // Of what has succeeded nowhere every task fails again, after as long as then.
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

/// What a platform is called.
pub(super) fn name(durable: &Durable, id: PlatformId) -> String {
    durable.platforms().get(&id).map(|spec| spec.name.clone()).unwrap_or_default()
}

/// As much of everything as any pilot had that was there: whatever ran can run again.
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

/// Whether a task can run on one of these platforms, each with what its pilots have.
pub(super) fn has_room(durable: &Durable, platforms: &[(PlatformId, Resources)], needs: &TaskNeeds) -> bool {
    platforms.iter().any(|(id, capacity)| {
        let walltime = durable.platforms().get(id).and_then(|spec| spec.walltime);
        let ends_in_time = walltime.zip(needs.time_limit).is_none_or(|(walltime, limit)| limit < walltime);
        ends_in_time && needs.resources.fits_in(capacity)
    })
}
