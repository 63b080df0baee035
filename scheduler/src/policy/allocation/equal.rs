//! Equal: each platform in equal parts among the users in need, whatever they like (paper 000, section
//! 5.3, "fairness policy"). What a user has no tasks for goes to the others.

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
