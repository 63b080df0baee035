//! Affinity-based round-robin: each user gets a fair number of cores, and in turns each takes some from the
//! platform that it likes most among the platforms with cores left (paper 000, section 5.3.2).

use super::{Demand, Pot, Shares, by_liking, equal_parts};

pub(super) fn share(demand: &Demand<'_>, unit_cores: u64) -> Shares {
    let mut pot = Pot::new(demand);
    let total = demand.cores.iter().fold(0u64, |sum, cores| sum.saturating_add(*cores));
    let mut owed = equal_parts(total, demand.tasks);
    let liking = |user| move |platform| demand.affinity.at(user, platform);
    let mut liked: Vec<Vec<usize>> =
        (0..owed.len()).map(|user| by_liking(0..demand.cores.len(), liking(user))).collect();
    while owed.iter().any(|n| *n > 0) {
        for user in 0..owed.len() {
            liked[user].retain(|platform| pot.free[*platform] > 0);
            match liked[user].first() {
                Some(platform) => owed[user] -= pot.give(user, *platform, owed[user].min(unit_cores.max(1))),
                None => owed[user] = 0,
            }
        }
    }
    Shares { cores: pot.cores, favourites: None }
}
