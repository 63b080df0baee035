//! The cores in use where a pilot is: by each user on its platform, by each application on its node. Computed
//! once per pull.

use crate::{
    engine::{
        dispatch::{candidate::cores_of, node_share::NodeShare},
        interface::settings::Settings,
        live::{Live, job_leases::JobLeases},
        state::durable::Durable,
    },
    ids::{JobId, PilotId, PlatformId},
    policy::matching::Standing,
};

/// The cores that tasks hold on a pilot's platform and node; see the module.
pub(in crate::engine) struct PlatformUsage<'a> {
    /// Fair share of each user on the platform in cores, by the user's place in the plan; `None`: the plan
    /// has no fair shares.
    shares: Option<&'a [u64]>,
    /// Whether each user had waiting tasks when the plan was made.
    queued: &'a [bool],
    /// Cores of the platform that tasks of each user hold. Empty without fair shares.
    held: Vec<u64>,
    /// The node's mix and its use; `None`: the plan has no mix for the node.
    node: Option<NodeShare<'a>>,
}

impl<'a> PlatformUsage<'a> {
    pub(in crate::engine) fn of(
        settings: &Settings,
        (durable, live): (&'a Durable, &'a Live),
        platform: PlatformId,
        id: PilotId,
    ) -> PlatformUsage<'a> {
        let shares = live.plan.shares(platform);
        let held = match shares {
            Some(shares) => held_by_users(settings, durable, live, platform, shares.len()),
            None => Vec::new(),
        };
        PlatformUsage {
            shares,
            queued: &live.plan.queued,
            held,
            node: NodeShare::of(settings, durable, live, id),
        }
    }

    /// Returns the cores of the platform that tasks of the job's user hold; 0 without fair shares.
    pub(in crate::engine) fn held(&self, leases: &JobLeases) -> u64 {
        leases.user.and_then(|user| self.held.get(user)).copied().unwrap_or(0)
    }

    /// Returns the user's fair share of the platform in cores; `None` if it is unlimited or not yet known.
    pub(in crate::engine) fn share(&self, leases: &JobLeases) -> Option<u64> {
        let user = leases.user.filter(|user| self.queued.get(*user).is_some_and(|is_queued| *is_queued))?;
        self.shares?.get(user).copied()
    }

    /// Returns whether the user holds the whole fair share.
    pub(in crate::engine) fn is_over(&self, leases: &JobLeases) -> bool {
        self.share(leases).is_some_and(|share| self.held(leases) >= share)
    }

    /// See [`NodeShare::standing`].
    pub(in crate::engine) fn standing(&self, application: &str, cores: u32) -> (Standing, Option<u64>) {
        self.node.as_ref().map_or_else(Default::default, |node| node.standing(application, cores.into()))
    }
}

/// Returns the cores that each user holds on the platform. O(jobs with tasks there).
fn held_by_users(
    settings: &Settings,
    durable: &Durable,
    live: &Live,
    platform: PlatformId,
    n_users: usize,
) -> Vec<u64> {
    let mut held = vec![0_u64; n_users];
    let there = live.held_on.range((platform, JobId(0))..=(platform, JobId(u64::MAX)));
    for ((_, id), n_tasks) in there {
        let user = live.jobs.get(id).and_then(|leases| leases.user);
        let held = user.and_then(|user| held.get_mut(user));
        if let Some((cores, job)) = held.zip(durable.jobs().get(id)) {
            *cores = cores.saturating_add(cores_of(settings, job, *n_tasks));
        }
    }
    held
}
