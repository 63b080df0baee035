//! Divides all applications together: each platform keeps the tasks that suit it best, and all platforms
//! finish at nearly the same time.
//!
//! Dividing one application after the other so that each finishes as early as possible ([`super::adaptive`])
//! gives all applications to all platforms. Example: two applications, each four times as fast on its own one
//! of two platforms. A fifth of each runs where it is slow, and both take 40 s instead of 25. The least last
//! end over all divisions is a linear program. This comes within a few hundredths of it in bounded time: it
//! minimizes the sum of the k-th powers of the platforms' ends, one application at a time, for ever larger k.
//! Our own method, from no paper.

use super::fill::fill;
use crate::policy::table::Table;

/// The first power mostly minimizes the total work, the last one nearly only the last end.
const POWERS: [f64; 7] = [2.0, 3.0, 5.0, 9.0, 17.0, 33.0, 65.0];
/// Number of times that all applications are divided anew for each power. More changes the last end by less
/// than a hundredth.
const N_ROUNDS: usize = 4;

/// Tasks of each application (row) for each platform (column), fractions included, and the seconds after
/// which each platform has finished its backlog and its part.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Number of tasks; 0 everywhere for an application that no platform runs.
    pub amounts: Table<f64>,
    /// Seconds.
    pub ends: Vec<f64>,
}

impl Division {
    /// Returns when the last platform that got tasks ends, in seconds; 0 if none got any.
    pub fn last_end(&self) -> f64 {
        let has_some = |column: &usize| self.amounts.rows().any(|row| row[*column] > 0.0);
        (0..self.ends.len()).filter(has_some).map(|column| self.ends[column]).fold(0.0, f64::max)
    }
}

/// Divides `n_tasks` tasks of each application over platforms. `rates`: tasks per second that a platform
/// finishes with all its cores, 0 where the application cannot run. `backlogs`: seconds of earlier work.
/// O(applications × platforms × log platforms).
///
/// # Panics
/// `rates` has no row for each application, or no column for each platform.
pub fn divide(n_tasks: &[f64], rates: &Table<f64>, backlogs: &[f64]) -> Division {
    assert_eq!(n_tasks.len(), rates.n_rows(), "an application, a row");
    let mut amounts = Table::new(rates.n_rows(), backlogs.len(), 0.0);
    let mut ends = backlogs.to_vec();
    for power in POWERS {
        for _ in 0..N_ROUNDS {
            for (row, n_tasks) in n_tasks.iter().enumerate() {
                let seconds = |amounts: &Table<f64>, column: usize| match rates.at(row, column) {
                    rate if rate > 0.0 => amounts.at(row, column) / rate,
                    _ => 0.0,
                };
                let without: Vec<f64> = (0..ends.len())
                    .map(|column| (ends[column] - seconds(&amounts, column)).max(0.0))
                    .collect();
                let filled = fill(*n_tasks, rates.row(row), &without, &levels(rates.row(row), power));
                for (column, amount) in filled.into_iter().enumerate() {
                    *amounts.at_mut(row, column) = amount;
                    ends[column] = without[column] + seconds(&amounts, column);
                }
            }
        }
    }
    Division { amounts, ends }
}

/// Returns the relative times for which an application may use each platform, so that the sum of the powers
/// of the ends is least: there its derivative by one more task, `power × end^(power - 1) / rate`, is equal
/// everywhere.
fn levels(rates: &[f64], power: f64) -> Vec<f64> {
    let best = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    rates.iter().map(|rate| (rate.max(0.0) / best).powf(1.0 / (power - 1.0))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Division, Table, divide};

    fn divided(n_tasks: &[f64], rates: &[Vec<f64>], backlogs: &[f64]) -> Division {
        divide(n_tasks, &Table::from_rows(rates).unwrap(), backlogs)
    }

    #[test]
    fn each_application_goes_where_it_gains_most() {
        let two = divided(&[100.0, 100.0], &[vec![4.0, 1.0], vec![1.0, 4.0]], &[0.0, 0.0]);
        assert_eq!(two.amounts, Table::from_rows(&[vec![100.0, 0.0], vec![0.0, 100.0]]).unwrap());
        assert_eq!((two.ends.clone(), two.last_end()), (vec![25.0, 25.0], 25.0));
        // The first platform is better for both, more so for the first application; the second helps out.
        let better = divided(&[100.0, 100.0], &[vec![8.0, 1.0], vec![4.0, 2.0]], &[0.0, 0.0]);
        assert_eq!(better.amounts.row(0), [100.0, 0.0]);
        assert!((better.last_end() - 25.0).abs() < 0.5, "{better:?}");
    }

    #[test]
    fn what_runs_nowhere_is_left_out() {
        let none = divided(&[7.0, 9.0], &[vec![0.0, 0.0], vec![0.0, 3.0]], &[1.0, 2.0]);
        assert_eq!(none.amounts, Table::from_rows(&[vec![0.0, 0.0], vec![0.0, 9.0]]).unwrap());
        assert_eq!((none.ends.clone(), none.last_end()), (vec![1.0, 5.0], 5.0));
        assert_eq!(divided(&[], &[], &[]).last_end(), 0.0);
    }

    /// Returns the least last end of all divisions in steps of a fortieth, for two applications on two
    /// platforms.
    fn best_of_all(n_tasks: &[f64], rates: &[Vec<f64>], backlogs: &[f64]) -> f64 {
        let mut best = f64::INFINITY;
        for (first, second) in (0..=40).flat_map(|i| (0..=40).map(move |j| (f64::from(i), f64::from(j)))) {
            let parts = [first / 40.0, second / 40.0];
            let part = |row: usize, column: usize| if column == 0 { parts[row] } else { 1.0 - parts[row] };
            let work = |column: usize| {
                (0..2).map(|row| part(row, column) * n_tasks[row] / rates[row][column]).sum::<f64>()
            };
            let end = |column: usize| if work(column) > 0.0 { backlogs[column] + work(column) } else { 0.0 };
            best = best.min(end(0).max(end(1)));
        }
        best
    }

    /// Returns a lower bound of the last end: for prices of the platforms' time that sum to 1, the cost of
    /// all tasks where they are cheapest (the dual of the linear program). Prices rise for platforms with
    /// more load.
    fn least_end(n_tasks: &[f64], rates: &[Vec<f64>]) -> f64 {
        let n_columns = rates[0].len();
        let (mut prices, mut least) = (vec![1.0 / n_columns as f64; n_columns], 0.0_f64);
        for round in 1..600 {
            let (mut cost, mut loads) = (0.0, vec![0.0_f64; n_columns]);
            for (n_tasks, rates) in n_tasks.iter().zip(rates) {
                let price = |column: &usize| prices[*column] / rates[*column];
                let cheapest = (0..n_columns).min_by(|a, b| price(a).total_cmp(&price(b))).expect("one");
                cost += n_tasks * price(&cheapest);
                loads[cheapest] += n_tasks / rates[cheapest];
            }
            least = least.max(cost);
            let most = loads.iter().copied().fold(0.0, f64::max);
            let step = 1.0 / f64::from(round).sqrt();
            prices.iter_mut().zip(&loads).for_each(|(price, load)| *price *= (step * load / most).exp());
            let sum: f64 = prices.iter().sum();
            prices.iter_mut().for_each(|price| *price /= sum);
        }
        least
    }

    proptest! {
        #[test]
        fn of_many_applications_and_platforms_too_it_is_nearly_the_least(
            (n_tasks, rates) in (1..50_usize, 1..20_usize).prop_flat_map(|(n_rows, n_columns)| {
                let row = prop::collection::vec(0.01..10.0_f64, n_columns);
                (prop::collection::vec(1.0..1e5_f64, n_rows), prop::collection::vec(row, n_rows))
            }),
        ) {
            let division = divided(&n_tasks, &rates, &vec![0.0; rates[0].len()]);
            let least = least_end(&n_tasks, &rates);
            prop_assert!(division.last_end() <= 1.08 * least, "{} {least}", division.last_end());
        }

        #[test]
        fn nothing_is_lost_and_the_last_end_is_nearly_the_least(
            n_tasks in prop::collection::vec(1.0..1e5_f64, 2),
            rates in prop::collection::vec(prop::collection::vec(0.1..50.0_f64, 2), 2),
            backlogs in prop::collection::vec(0.0..1000.0_f64, 2),
        ) {
            let division = divided(&n_tasks, &rates, &backlogs);
            for (row, n_tasks) in n_tasks.iter().enumerate() {
                prop_assert!(division.amounts.row(row).iter().all(|amount| *amount >= 0.0));
                let sum: f64 = division.amounts.row(row).iter().sum();
                prop_assert!((sum / n_tasks - 1.0).abs() < 1e-9, "{sum} of {n_tasks}");
            }
            let best = best_of_all(&n_tasks, &rates, &backlogs);
            prop_assert!(division.last_end() <= 1.02 * best + 1e-9, "{} {best}", division.last_end());
        }
    }
}
