//! Fills platforms that have backlogs up to proportional levels.

/// Returns the amount of tasks for each platform, so that its backlog and these tasks end at its level times
/// a common moment, at these rates. With equal levels all platforms end at the same moment. A platform with a
/// longer backlog, or with a rate not above 0, gets none. O(platforms × log platforms).
pub(super) fn fill(n_tasks: f64, rates: &[f64], backlogs: &[f64], levels: &[f64]) -> Vec<f64> {
    let is_alive = |platform: &usize| rates[*platform] > 0.0;
    let full_at = |platform: usize| backlogs[platform] / levels[platform];
    let mut soonest: Vec<usize> = (0..rates.len()).filter(is_alive).collect();
    soonest.sort_by(|a, b| full_at(*a).total_cmp(&full_at(*b)));
    let (mut rate, mut owed, mut end) = (0.0, n_tasks, 0.0);
    for (n, platform) in soonest.iter().copied().enumerate() {
        rate += rates[platform] * levels[platform];
        owed += rates[platform] * backlogs[platform];
        end = owed / rate;
        let next = soonest.get(n + 1).map_or(f64::INFINITY, |next| full_at(*next));
        if end <= next {
            break;
        }
    }
    let until_the_end = |platform: usize| {
        if is_alive(&platform) {
            (end * levels[platform] - backlogs[platform]).max(0.0) * rates[platform]
        } else {
            0.0
        }
    };
    (0..rates.len()).map(until_the_end).collect()
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn whoever_gets_some_finishes_at_the_same_time() {
        let fill = |n_tasks, rates: &[f64], backlogs: &[f64]| {
            fill(n_tasks, rates, backlogs, &vec![1.0; rates.len()])
        };
        assert_eq!(fill(30.0, &[2.0, 1.0], &[0.0, 0.0]), [20.0, 10.0]);
        assert_eq!(fill(30.0, &[2.0, 1.0], &[0.0, 6.0]), [24.0, 6.0]);
        assert_eq!(fill(8.0, &[2.0, 1.0], &[0.0, 6.0]), [8.0, 0.0]);
        assert_eq!(fill(30.0, &[2.0, 1.0, 1.0], &[9.0, 100.0, 0.0]), [14.0, 0.0, 16.0]);
        assert_eq!(fill(30.0, &[2.0, 0.0, 1.0], &[0.0, f64::NAN, 6.0]), [24.0, 0.0, 6.0]);
    }

    #[test]
    fn a_higher_level_is_filled_longer() {
        assert_eq!(fill(25.0, &[2.0, 1.0], &[0.0, 0.0], &[1.0, 0.5]), [20.0, 5.0]);
        assert_eq!(fill(20.0, &[2.0, 1.0], &[0.0, 5.0], &[1.0, 0.5]), [20.0, 0.0]);
    }
}
