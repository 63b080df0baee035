//! Jobs among which the best is, found without weighing every one: where many wait, a pull costs what few do.

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
};

use super::{
    quotas::{Divided, Meant},
    volatile::Volatile,
};
use crate::{
    ids::{JobId, PlatformId},
    policy::matching::application::Score,
    time::Time,
};

/// Fewer are all weighed.
const N_READY_MIN: usize = 8;

/// By what matching compares first: priority, share, quota, and how much the platform should serve the application.
type Rank = (Reverse<i32>, bool, bool, Reverse<Score>);

/// Ready jobs that no other one goes before, on a platform where policies have said something of every one; `held`:
/// cores that each user holds there. `None`: all must be weighed. Pilots that keep cores change the order, so there
/// must be none.
pub(super) fn shortlist(
    volatile: &Volatile,
    platform: PlatformId,
    now: Time,
    held: &BTreeMap<&str, u64>,
) -> Option<Vec<JobId>> {
    let guide = &volatile.guide;
    let (column, scores) = (guide.quotas.column(platform)?, guide.scores_by_row(platform)?);
    if volatile.n_keepers > 0 || volatile.ready.len() < N_READY_MIN {
        return None;
    }
    let is_over = |user: &String| {
        let held = held.get(user.as_str()).copied().unwrap_or(0);
        guide.share(platform, user).is_some_and(|share| held >= share)
    };
    let over: Vec<bool> = guide.users().iter().map(is_over).collect();
    let mut best: Option<Rank> = None;
    let mut jobs = Vec::new();
    for (id, leases) in volatile.jobs.iter().filter(|(_, leases)| !leases.ready.is_empty()) {
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
        let rank = (Reverse(leases.priority), is_over, quota.n_left == 0, Reverse(*scores.get(row)?));
        match best.as_ref().map_or(Ordering::Less, |best| rank.cmp(best)) {
            Ordering::Less => {
                jobs.clear();
                jobs.push(*id);
                best = Some(rank);
            }
            Ordering::Equal => jobs.push(*id),
            Ordering::Greater => {}
        }
    }
    Some(jobs)
}
