//! Finds the jobs that may go first in matching without a full comparison of all jobs, so that a pull stays
//! cheap when many jobs wait.

use std::cmp::{Ordering, Reverse};

use crate::{
    engine::{
        dispatch::{capacity::PilotCapacity, usage::PlatformUsage},
        live::{
            Live,
            job_leases::JobLeases,
            plan::quota::{ClassQuota, Entitlement, QuotaPlace},
        },
    },
    ids::JobId,
    policy::matching::{Standing, application::Score},
};

/// With fewer ready jobs than this, all are compared.
const N_READY_MIN: usize = 8;

/// The criteria that matching compares first: priority, fair share, quota, node mix, and the score of the
/// application on the platform.
type Rank = ((Reverse<(i32, i32)>, bool, bool), (Standing, Reverse<Score>));

/// Returns the ready jobs that no other job precedes, on a platform for which the plan has a quota and a
/// score for every job. Returns `None` if all jobs must be compared. Reservations change the order, so there
/// must be none.
pub(in crate::engine) fn shortlist(
    offer: &PilotCapacity<'_>,
    here: &PlatformUsage<'_>,
    live: &Live,
) -> Option<Vec<JobId>> {
    let (platform, now) = (offer.pilot.platform, offer.now());
    let quotas = &live.plan.quotas;
    let (column, scores) = (quotas.column(platform)?, live.plan.scores_by_row(platform)?);
    if live.n_reservations > 0 || live.ready.len() < N_READY_MIN {
        return None;
    }
    let standing = |row: &ClassQuota| here.standing(&row.kind.application, row.kind.needs.cores).0;
    // The standing of each row that was looked at.
    let mut standings = vec![None; quotas.rows.len()];
    let mut best: Option<Rank> = None;
    let mut jobs = Vec::new();
    // All jobs of a user must have one priority: otherwise it matters which of them comes first, and fits.
    let mut of_users = vec![None; live.plan.n_users()];
    let is_one = of_users.len() == 1;
    let may_be_had = |leases: &JobLeases| !leases.ready.is_empty() && leases.profiled_on.is_none();
    for (job, leases) in live.jobs.iter().filter(|(_, leases)| may_be_had(leases)) {
        let row = match leases.divided {
            QuotaPlace::NotYet => continue,
            QuotaPlace::Left => return None,
            QuotaPlace::In(row) => row,
        };
        let quota = match leases.meant(quotas, Some(column), now) {
            Entitlement::Nothing => continue,
            Entitlement::Anything => return None,
            Entitlement::Quota(quota) => quota,
        };
        let of_user = of_users.get_mut(leases.user?)?;
        if !is_one && *of_user.get_or_insert((leases.rank, leases.priority)) != (leases.rank, leases.priority)
        {
            return None;
        }
        let own = if is_one { leases.priority } else { 0 };
        let first = (Reverse((leases.rank, own)), here.is_over(leases), quota.n_left == 0);
        if best.as_ref().is_some_and(|(best, _)| first > *best) {
            continue;
        }
        let standing = *standings.get_mut(row)?.get_or_insert_with(|| standing(&quotas.rows[row]));
        let rank = (first, (standing, Reverse(*scores.get(row)?)));
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
