//! Equal: divides each platform into equal parts among the users in need, without regard to affinity (paper
//! 000, section 5.3, "fairness policy"). Cores for which a user has no tasks go to the others.

use super::{Demand, Pot, Shares, equal_parts};

pub(super) fn share(demand: &Demand<'_>) -> Shares {
    let mut pot = Pot::new(demand);
    for platform in 0..demand.cores.len() {
        let needs: Vec<u64> = (0..demand.tasks.len()).map(|user| pot.need(user)).collect();
        for (user, n) in equal_parts(demand.cores[platform], &needs).into_iter().enumerate() {
            pot.give(user, platform, n);
        }
    }
    Shares { cores: pot.cores, favourites: None }
}
