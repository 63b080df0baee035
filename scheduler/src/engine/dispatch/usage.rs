//! What tasks hold where a pilot is: on its platform each user's, on its node each application's. Looked up once a pull.

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

/// See the module.
pub(in crate::engine) struct PlatformUsage<'a> {
    /// Cores of the platform that are meant for each user, by their places in the guide; `None`: for nobody.
    shares: Option<&'a [u64]>,
    /// Who had tasks that waited when these were meant.
    queued: &'a [bool],
    /// Cores of it that tasks of each hold. Empty where nobody has a share.
    held: Vec<u64>,
    /// `None`: nobody says whom the node is meant for.
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

    /// Cores of the platform that tasks of the job's user hold; 0 where nobody has a share.
    pub(in crate::engine) fn held(&self, leases: &JobLeases) -> u64 {
        leases.user.and_then(|user| self.held.get(user)).copied().unwrap_or(0)
    }

    /// Cores of it that are meant for him; `None`: as many as there are, or that is not known yet.
    pub(in crate::engine) fn share(&self, leases: &JobLeases) -> Option<u64> {
        let user = leases.user.filter(|user| self.queued.get(*user).is_some_and(|is_queued| *is_queued))?;
        self.shares?.get(user).copied()
    }

    /// Whether he has all of them.
    pub(in crate::engine) fn is_over(&self, leases: &JobLeases) -> bool {
        self.share(leases).is_some_and(|share| self.held(leases) >= share)
    }

    /// See [`NodeShare::standing`].
    pub(in crate::engine) fn standing(&self, application: &str, cores: u32) -> (Standing, Option<u64>) {
        self.node.as_ref().map_or_else(Default::default, |node| node.standing(application, cores.into()))
    }
}

/// O(jobs that hold some).
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
