//! Jobs among which the best is, found without weighing every one: where many wait, a pull costs what few do.

use std::cmp::{Ordering, Reverse};

use super::{
    durable::Durable,
    nodes::Remains,
    offer::Offer,
    quotas::{Divided, Kind, Meant, Row},
    serve::cores_held_if_shared,
    settings::Settings,
    volatile::{JobLeases, Volatile},
};
use crate::{
    ids::{JobId, PilotId},
    policy::matching::{Standing, application::Score},
};

/// Fewer are all weighed.
const N_READY_MIN: usize = 8;

/// By what matching compares first: priority, share, quota, node, and how much the platform should serve the application.
type Rank = (Reverse<i32>, bool, bool, Standing, Reverse<Score>);

/// Ready jobs that no other one goes before, on a platform where policies have said something of every one. `None`: all
/// must be weighed. Pilots that keep cores change the order, so there must be none.
pub(super) fn shortlist(
    settings: &Settings,
    offer: &Offer<'_>,
    (durable, volatile): (&Durable, &Volatile),
    id: PilotId,
) -> Option<Vec<JobId>> {
    let (platform, now) = (offer.pilot.platform, offer.now());
    let guide = &volatile.guide;
    let (column, scores) = (guide.quotas.column(platform)?, guide.scores_by_row(platform)?);
    if volatile.n_keepers > 0 || volatile.ready.len() < N_READY_MIN {
        return None;
    }
    let held = cores_held_if_shared(settings, durable, volatile, platform);
    let node = Remains::of(settings, durable, volatile, id);
    let is_over = |user: &String| {
        let held = held.get(user.as_str()).copied().unwrap_or(0);
        guide.share(platform, user).is_some_and(|share| held >= share)
    };
    let over: Vec<bool> = guide.users().iter().map(is_over).collect();
    let standing = |row: &Row| {
        let Kind { application, needs } = &row.kind;
        node.as_ref().map_or(Standing::Within, |node| node.standing(application, needs.cores.into()).0)
    };
    let standings: Vec<Standing> = guide.quotas.rows.iter().map(standing).collect();
    let mut best: Option<Rank> = None;
    let mut jobs = Vec::new();
    let may_be_had = |leases: &JobLeases| !leases.ready.is_empty() && leases.profiled_on.is_none();
    for (job, leases) in volatile.jobs.iter().filter(|(_, leases)| may_be_had(leases)) {
        let row = match leases.divided {
            Divided::NotYet => continue,
            Divided::Left => return None,
            Divided::In(row) => row,
        };
        let quota = match guide.quotas.meant(Some(column), leases, now) {
            Meant::Nothing => continue,
            Meant::Anything => return None,
            Meant::Quota(quota) => quota,
        };
        let is_over = *over.get(leases.user?)?;
        let (standing, score) = (*standings.get(row)?, Reverse(*scores.get(row)?));
        let rank = (Reverse(leases.priority), is_over, quota.n_left == 0, standing, score);
        match best.as_ref().map_or(Ordering::Less, |best| rank.cmp(best)) {
            Ordering::Less => {
                jobs.clear();
                jobs.push(*job);
                best = Some(rank);
            }
            Ordering::Equal => jobs.push(*job),
            Ordering::Greater => {}
        }
    }
    Some(jobs)
}
