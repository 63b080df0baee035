//! A job that dispatch may choose for a pilot, and the cores that tasks hold.

use crate::{
    engine::{
        interface::settings::Settings,
        live::{
            Live,
            plan::quota::{Quota, QuotaPlace},
        },
        state::{durable::Durable, job::Job},
    },
    ids::{JobId, PilotId},
    policy::matching::Candidate,
    pull::Bundle,
    ranges::TaskSet,
};

/// Returns whether the pilot's next answer may still grow: the templates that it carries, those of
/// unconfirmed parts and of these bundles, are together below their limit.
pub(in crate::engine) fn has_room_for_templates(
    settings: &Settings,
    durable: &Durable,
    live: &Live,
    id: PilotId,
    bundles: &[Bundle],
) -> bool {
    let Some(state) = live.pilots.get(&id) else { return false };
    let spec_bytes = |job: &JobId| durable.jobs().get(job).map_or(0, |job| job.request.spec.len());
    let unconfirmed = state.unconfirmed.iter().flat_map(|part| &part.templates);
    let new = bundles.iter().map(|bundle| &bundle.job).filter(|job| !state.templates.contains(job));
    let n_bytes: usize = unconfirmed.map(|t| t.spec.len()).chain(new.map(spec_bytes)).sum();
    n_bytes < settings.template_bytes_max
}

/// A job with ready tasks that the pilot can run.
pub(in crate::engine) struct JobCandidate<'a> {
    pub(in crate::engine) job: &'a Job,
    pub(in crate::engine) candidate: Candidate<'a>,
    /// Its row in the quota table.
    pub(in crate::engine) divided: QuotaPlace,
    /// The quota of its task class on the pilot's platform; `None`: the platform may take any number.
    pub(in crate::engine) quota: Option<Quota>,
    /// Cores of the node that its application may still take before others; `None`: no cores are left for it,
    /// or the plan has no mix for the node.
    pub(in crate::engine) node_left: Option<u64>,
    /// Number of ready tasks that the pilot may have.
    pub(in crate::engine) n_ready: u64,
    /// Number of its tasks that the whole pilot can run at a time.
    pub(in crate::engine) n_slots: u64,
    /// Number of its tasks that a slot should have, the running one included.
    pub(in crate::engine) depth: u64,
    /// Number of pilots that can run the job.
    pub(in crate::engine) n_fitting: u64,
    /// Ready tasks that have failed on or near this pilot and are retried elsewhere.
    pub(in crate::engine) avoided: TaskSet,
}

impl JobCandidate<'_> {
    /// Returns the cores that `n_tasks` tasks of the job keep busy.
    pub(in crate::engine) fn cores_of(&self, n_tasks: u64) -> u64 {
        n_tasks.div_ceil(self.depth).saturating_mul(self.job.request.needs.resources.cores.into())
    }
}

/// Returns the cores that `n_tasks` tasks of a job hold. With prefetch, a slot has several tasks.
pub(in crate::engine) fn cores_of(settings: &Settings, job: &Job, n_tasks: u64) -> u64 {
    let n_slots = n_tasks.div_ceil(job.depth(settings));
    n_slots.saturating_mul(job.request.needs.resources.cores.into())
}
