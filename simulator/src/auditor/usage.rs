//! Checks of the core time that users' tasks and our batch jobs use, against the limits. Rule 6.

use std::collections::{BTreeMap, BTreeSet};

use scheduler::{
    engine::{
        interface::{JobRequest, PlatformSpec},
        record::JobResult,
    },
    ids::{AllocationId, JobId, PilotId, PlatformId},
    time::Span,
};

use super::{Auditor, Violation};

/// Core time, as pilots have reported it.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// The limit for each user on a platform.
    limits: BTreeMap<PlatformId, Span>,
    users: BTreeMap<JobId, (String, u32)>,
    platforms: (BTreeMap<AllocationId, PlatformId>, BTreeMap<PilotId, PlatformId>),
    /// Allocations of which a pilot registered.
    pilots: BTreeSet<AllocationId>,
    taken_us: BTreeMap<(PlatformId, String), u64>,
    /// Tags of allocations that were given up before one of their pilots registered.
    unheard: BTreeSet<String>,
}

impl Books {
    pub(super) fn allowed(&mut self, platform: PlatformId, limit: Option<Span>) {
        self.limits.extend(limit.map(|limit| (platform, limit)));
    }

    pub(super) fn accepted(&mut self, job: JobId, request: &JobRequest) {
        self.users.insert(job, (request.user.clone(), request.needs.resources.cores));
    }

    pub(super) fn asked_for(&mut self, allocation: AllocationId, platform: PlatformId) {
        self.platforms.0.insert(allocation, platform);
    }

    pub(super) fn registered(&mut self, pilot: PilotId, allocation: AllocationId) {
        self.pilots.insert(allocation);
        self.platforms.1.extend(self.platforms.0.get(&allocation).map(|platform| (pilot, *platform)));
    }

    pub(super) fn platform_of(&self, pilot: PilotId) -> Option<PlatformId> {
        self.platforms.1.get(&pilot).copied()
    }

    pub(super) fn released(&mut self, allocation: AllocationId, tag: Option<&String>) {
        let has_come = self.pilots.contains(&allocation);
        self.unheard.extend(tag.filter(|_| !has_come).cloned());
    }

    /// Adds ended attempts, failed ones included.
    pub(super) fn reported(&mut self, pilot: PilotId, result: &JobResult) {
        let platform = self.platform_of(pilot);
        let Some((platform, (user, cores))) = platform.zip(self.users.get(&result.job)) else { return };
        let failed = result.failures.iter().map(|failure| failure.usage.wall_us);
        let wall_us: u64 = result.successes.wall_us.iter().copied().chain(failed).sum();
        *self.taken_us.entry((platform, user.clone())).or_default() += wall_us * u64::from(*cores);
    }

    /// Checks tasks that are sent to the pilot: their user has not used up the limit there.
    pub(super) fn may_send(&self, pilot: PilotId, job: JobId) -> Result<(), Violation> {
        let platform = self.platforms.1.get(&pilot).copied();
        let Some((platform, (user, _))) = platform.zip(self.users.get(&job)) else { return Ok(()) };
        let taken = self.taken_us.get(&(platform, user.clone())).copied().unwrap_or(0);
        let limit = self.limits.get(&platform).map_or(u64::MAX, |limit| limit.0);
        ensure!(
            taken < limit,
            "tasks of job {job} were sent to {platform}, where {user} has taken {taken} of {limit} core-\u{b5}s"
        );
        Ok(())
    }
}

impl Auditor {
    /// Checks the core time of our batch jobs at a site, present ones with their whole walltime. Batch jobs
    /// that were taken away before the manager heard of their pilots are not counted.
    pub(crate) fn may_take<'a>(
        &self,
        spec: &PlatformSpec,
        taken: impl Iterator<Item = (&'a str, Span)>,
    ) -> Result<(), Violation> {
        let counts = |tag: &str| !self.usage.unheard.contains(tag);
        let taken =
            taken.filter(|(tag, _)| counts(tag)).fold(0, |sum: u64, (_, span)| sum.saturating_add(span.0));
        let (site, taken) = (&spec.name, Span(taken));
        if let Some(limit) = spec.limits.core_time_max {
            ensure!(taken <= limit, "batch jobs of {site} take {taken} \u{d7} cores; the limit is {limit}");
        }
        if let Some((price, limit)) = spec.price.as_ref().zip(spec.limits.cost_max) {
            let cost = price.of(taken);
            ensure!(cost <= limit, "batch jobs of {site} cost {cost}; the limit is {limit}");
        }
        Ok(())
    }
}
