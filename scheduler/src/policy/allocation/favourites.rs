//! Common parts of PAF and AAF: each pass finds the favourites anew among the cores that are left, and each
//! favoured user gets an equal part of a platform, the neediest last (paper 000, section 5.3.1).

use super::{Pot, by_liking};
use crate::policy::table::Table;

/// The users in need and the platforms with free cores.
pub(super) struct Pass {
    pub(super) users: Vec<usize>,
    pub(super) platforms: Vec<usize>,
    pub(super) is_first: bool,
}

/// Divides cores in passes until none is left or no user is in need. `favourites` marks the platforms that
/// each user favours in a pass; if it marks none, `fallback` does. Returns the favourites of the first pass.
pub(super) fn share_in_passes(
    pot: &mut Pot<'_>,
    favourites: impl Fn(&Pass, &mut Table<bool>),
    fallback: impl Fn(&Pass, &mut Table<bool>),
) -> Table<bool> {
    let (n_users, n_platforms) = (pot.demand.tasks.len(), pot.demand.cores.len());
    let mut first = None;
    loop {
        let users: Vec<usize> = (0..n_users).filter(|user| pot.need(*user) > 0).collect();
        let platforms: Vec<usize> = (0..n_platforms).filter(|platform| pot.free[*platform] > 0).collect();
        let pass = Pass { users, platforms, is_first: first.is_none() };
        let mut marks = Table::new(n_users, n_platforms, false);
        if pass.users.is_empty() || pass.platforms.is_empty() {
            return first.unwrap_or(marks);
        }
        favourites(&pass, &mut marks);
        if !pass.users.iter().any(|user| marks.row(*user).contains(&true)) {
            fallback(&pass, &mut marks);
        }
        let n_given = give_to_favourites(pot, &pass, &marks);
        first.get_or_insert(marks);
        if n_given == 0 {
            return first.unwrap_or_else(|| Table::new(n_users, n_platforms, false));
        }
    }
}

/// Gives cores to users with few tasks left first: their unneeded cores are divided among the rest. Returns
/// the number of cores given.
fn give_to_favourites(pot: &mut Pot<'_>, pass: &Pass, marks: &Table<bool>) -> u64 {
    let n_fans = |platform: usize| pass.users.iter().filter(|user| marks.at(**user, platform)).count() as u64;
    let mut n_fans: Vec<u64> = (0..marks.n_columns()).map(n_fans).collect();
    let mut users = pass.users.clone();
    users.sort_by_key(|user| pot.need(*user));
    let mut n_given = 0;
    for user in users {
        let liked = pass.platforms.iter().copied().filter(|platform| marks.at(user, *platform));
        for platform in by_liking(liked, |platform| pot.demand.affinity.at(user, platform)) {
            let part = pot.free[platform] / n_fans[platform].max(1);
            n_fans[platform] = n_fans[platform].saturating_sub(1);
            n_given += pot.give(user, platform, part.min(pot.need(user)));
        }
    }
    n_given
}
