//! Equal finish: a job is divided so that, by what waits and by the rates measured, all platforms that get
//! some of it finish at the same time. The sound form of paper 003's weights: never negative, always all of
//! the job, and a platform that slows down, speeds up or fails gets its due without a step of its own.

use super::{Weights, goodput::Goodput};
use crate::policy::table::Table;

/// The weights for a job of `n_tasks` tasks of an application. `queued`: tasks of each application (row)
/// that each platform (column) has not finished. O(platforms × (applications + log platforms)).
pub(super) fn weights(goodput: &Goodput, application: usize, n_tasks: u64, queued: &Table<u64>) -> Weights {
    let rates = goodput.rates();
    let backlogs: Vec<f64> = (0..rates.n_columns())
        .map(|platform| {
            let seconds = |row: usize| queued.at(row, platform) as f64 / rates.at(row, platform);
            (0..rates.n_rows()).map(seconds).sum()
        })
        .collect();
    let amounts = fill(n_tasks as f64, rates.row(application), &backlogs);
    let in_proportion = || Weights::of(rates.row(application));
    Weights::of(&amounts).or_else(in_proportion).unwrap_or_else(|| Weights::equal(rates.n_columns()))
}

/// Tasks for each platform: those that it finishes from the end of its backlog to the one moment at which
/// all of them are finished.
fn fill(n_tasks: f64, rates: &[f64], backlogs: &[f64]) -> Vec<f64> {
    let is_alive = |platform: &usize| rates[*platform] > 0.0;
    let mut soonest: Vec<usize> = (0..rates.len()).filter(is_alive).collect();
    soonest.sort_by(|a, b| backlogs[*a].total_cmp(&backlogs[*b]));
    let (mut rate, mut owed, mut end) = (0.0, n_tasks, 0.0);
    for (n, platform) in soonest.iter().copied().enumerate() {
        rate += rates[platform];
        owed += rates[platform] * backlogs[platform];
        end = owed / rate;
        let next = soonest.get(n + 1).map_or(f64::INFINITY, |next| backlogs[*next]);
        if end <= next {
            break;
        }
    }
    let until_the_end = |platform: usize| (end - backlogs[platform]).max(0.0) * rates[platform];
    (0..rates.len()).map(|platform| if is_alive(&platform) { until_the_end(platform) } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn whoever_gets_some_finishes_at_the_same_time() {
        assert_eq!(fill(30.0, &[2.0, 1.0], &[0.0, 0.0]), [20.0, 10.0]);
        assert_eq!(fill(30.0, &[2.0, 1.0], &[0.0, 6.0]), [24.0, 6.0]);
        assert_eq!(fill(8.0, &[2.0, 1.0], &[0.0, 6.0]), [8.0, 0.0]);
        assert_eq!(fill(30.0, &[2.0, 1.0, 1.0], &[9.0, 100.0, 0.0]), [14.0, 0.0, 16.0]);
        assert_eq!(fill(30.0, &[2.0, 0.0, 1.0], &[0.0, f64::NAN, 6.0]), [24.0, 0.0, 6.0]);
    }
}
