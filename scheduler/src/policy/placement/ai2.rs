//! AI2: the first request is placed by fastest first and by best fit in turn, what waits behind it by fastest
//! first until one does not fit; the branch that puts more computing power to use wins, ties to fastest first
//! (AI2 in paper 001). What runs how long is not asked.

use super::{Request, best_fit, fastest_first, floor::Floor};

pub(super) fn choose(floor: &Floor, head: &Request, behind: &[Request]) -> Option<usize> {
    let fastest = fastest_first::choose(&floor.free, head.cores)?;
    let fullest = best_fit::choose(&floor.free, head.cores)?;
    if fullest == fastest || power(floor, head, fastest, behind) >= power(floor, head, fullest, behind) {
        Some(fastest)
    } else {
        Some(fullest)
    }
}

/// Cores times speed of all that could start now. Cores are summed up first: power that is equal should be so
/// to the last bit, whatever was placed where.
fn power(floor: &Floor, head: &Request, first: usize, behind: &[Request]) -> f64 {
    let mut free = floor.free.clone();
    free[first] -= head.cores;
    for request in behind {
        let Some(rank) = fastest_first::choose(&free, request.cores) else { break };
        free[rank] -= request.cores;
    }
    let n_used = floor.free.iter().zip(&free).map(|(before, after)| before - after);
    n_used.zip(&floor.speeds).map(|(cores, speed)| cores as f64 * speed).sum()
}
