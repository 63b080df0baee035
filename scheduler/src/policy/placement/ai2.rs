//! AI2: tries the first request by fastest first and by best fit, and the requests behind it by fastest first
//! until one does not fit. The branch that uses more computing power wins, ties go to fastest first (AI2 in
//! paper 001). Ignores runtimes.

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

/// Returns cores times speed of all requests that could start now. Cores are summed up first, so that equal
/// power is equal to the last bit, independent of the order of placement.
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

#[cfg(test)]
mod tests {
    use super::super::{Placement, Platform, Request, Scene};

    /// Returns the platform of the first request, for requests of so many cores and platforms as (free cores,
    /// speed).
    fn place(platforms: &[(u64, f64)], cores: &[u64]) -> Vec<usize> {
        let platform = |(n_free, speed): &(u64, f64)| Platform { n_free: *n_free, speed: *speed };
        let platforms: Vec<Platform> = platforms.iter().map(platform).collect();
        let request = |cores: &u64| Request { cores: *cores, submitted_at: 0.0, runtime: 1.0 };
        let waiting: Vec<Request> = cores.iter().map(request).collect();
        Placement::Ai2.place(&Scene { now: 0.0, platforms: &platforms, running: &[], waiting: &waiting })
    }

    #[test]
    fn power_is_cores_times_speed() {
        // By fastest first 8 · 10 and 3 · 2, then nine fit nowhere; by best fit, on the slowest, 8 · 1, 3 ·
        // 10 and 9 · 2: twenty cores instead of eleven, and less power.
        assert_eq!(place(&[(10, 10.0), (9, 2.0), (8, 1.0)], &[8, 3, 9]), [0]);
        assert_eq!(place(&[(10, 2.0), (9, 2.0), (8, 1.0)], &[8, 3, 9]), [2]);
        // Eleven cores both times: 2 · 10 and 9 · 1, or 2 · 1 and 9 · 10.
        assert_eq!(place(&[(10, 10.0), (9, 1.0), (2, 1.0)], &[2, 9]), [2]);
        // The power is equal either way.
        assert_eq!(place(&[(10, 1.0), (9, 1.0), (2, 1.0)], &[2, 9]), [0]);
    }

    #[test]
    fn what_fits_nowhere_ends_the_count() {
        // Nine fit nowhere; six behind them would fit on the fast platform, without the first request.
        assert_eq!(place(&[(3, 1.0), (8, 2.0)], &[3, 9, 6]), [1]);
        assert_eq!(place(&[(3, 1.0), (8, 2.0)], &[3, 6, 9]), [0]);
    }
}
