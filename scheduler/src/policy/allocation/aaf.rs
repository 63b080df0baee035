//! Application affinity first: each user is first on the platforms that it likes most (paper 000, section
//! 5.3.1). If no user is first on any platform, because few platforms are left, the users at or above the
//! median are.

use super::{
    Demand, Pot, Shares, by_liking,
    favourites::{Pass, share_in_passes},
};
use crate::policy::table::Table;

pub(super) fn share(demand: &Demand<'_>, percent: u32) -> Shares {
    let mut pot = Pot::new(demand);
    let liking = |user, platform| demand.affinity.at(user, platform);
    let favourites = |pass: &Pass, marks: &mut Table<bool>| {
        let n_first = pass.platforms.len() * percent as usize / 100;
        for user in pass.users.iter().copied() {
            let liked = by_liking(pass.platforms.iter().copied(), |platform| liking(user, platform));
            liked.into_iter().take(n_first).for_each(|platform| *marks.at_mut(user, platform) = true);
        }
    };
    let fallback = |pass: &Pass, marks: &mut Table<bool>| {
        for platform in pass.platforms.iter().copied() {
            let middle = median(pass.users.iter().map(|user| liking(*user, platform)).collect());
            for user in pass.users.iter().copied().filter(|user| liking(*user, platform) >= middle) {
                *marks.at_mut(user, platform) = true;
            }
        }
    };
    share_in_passes(&mut pot, favourites, fallback);
    Shares { cores: pot.cores, favourites: None }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.get(values.len().saturating_sub(1) / 2), values.get(values.len() / 2)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}
