//! Most affected first: the user whose tasks suffer most from co-runners chooses them, for as many nodes as
//! the shares of this combination allow (paper 000, section 5.4).

use super::{Combination, Floor};

pub(super) fn fill(floor: &mut Floor<'_>, is_recomputed: bool, is_of_pairs: bool) {
    let mut open: Vec<usize> = (0..floor.left.len()).filter(|user| floor.left[*user] > 0).collect();
    let first = suffering(floor, &open, is_of_pairs);
    while floor.n_free > 0 {
        open.retain(|user| floor.left[*user] > 0);
        let now = if is_recomputed { suffering(floor, &open, is_of_pairs) } else { first.clone() };
        // Ties go to the lowest index.
        let most = open.iter().copied().reduce(|most, user| if now[user] > now[most] { user } else { most });
        let Some(user) = most else { return };
        match floor.best_for(user) {
            Some(combination) => floor.put(combination, u64::MAX),
            None => open.retain(|other| *other != user),
        }
    }
}

/// Returns the mean slow-down of each user's tasks over the combinations of users in `open`.
fn suffering(floor: &Floor<'_>, open: &[usize], is_of_pairs: bool) -> Vec<f64> {
    let counts = |combination: &&Combination| {
        let is_among_open = combination.members.iter().all(|member| open.contains(member));
        is_among_open && (!is_of_pairs || combination.members.len() == 2)
    };
    let site = floor.site;
    let mean = |user: usize| {
        let runtimes = site.combinations.iter().filter(counts).filter_map(|c| c.runtime_of(user));
        let differences: Vec<f64> =
            runtimes.map(|runtime| site.affinity.difference(runtime, site.alone[user])).collect();
        differences.iter().sum::<f64>() / differences.len().max(1) as f64
    };
    (0..site.shares.len()).map(mean).collect()
}
