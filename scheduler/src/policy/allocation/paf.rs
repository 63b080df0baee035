//! Platform affinity first: each platform goes to the users that like it most, and to the users that favoured
//! it before (paper 000, section 5.3.1). "At least" half of the users is read as its floor: with five users
//! two are first, as in the paper's text.

use super::{
    Demand, Pot, Shares, by_liking,
    favourites::{Pass, share_in_passes},
};
use crate::policy::table::Table;

pub(super) fn share(demand: &Demand<'_>, percent: u32) -> Shares {
    let mut pot = Pot::new(demand);
    let before = demand
        .favourites
        .filter(|table| table.n_rows() == demand.tasks.len() && table.n_columns() == demand.cores.len());
    let favourites = |pass: &Pass, marks: &mut Table<bool>| {
        let n_first = pass.users.len() * percent as usize / 100;
        for platform in pass.platforms.iter().copied() {
            let fans = by_liking(pass.users.iter().copied(), |user| demand.affinity.at(user, platform));
            fans.into_iter().take(n_first).for_each(|user| *marks.at_mut(user, platform) = true);
            let stays =
                |user: &usize| pass.is_first && before.is_some_and(|before| before.at(*user, platform));
            for user in pass.users.iter().copied().filter(stays) {
                *marks.at_mut(user, platform) = true;
            }
        }
    };
    let fallback = |pass: &Pass, marks: &mut Table<bool>| {
        for user in pass.users.iter().copied() {
            pass.platforms.iter().for_each(|platform| *marks.at_mut(user, *platform) = true);
        }
    };
    let favourites = share_in_passes(&mut pot, favourites, fallback);
    Shares { cores: pot.cores, favourites: Some(favourites) }
}
