//! Equal finish: divides a job so that, by the backlogs and the measured rates, all platforms that get a part
//! of it finish at the same time. The sound form of paper 003's weights: never negative, the parts always add
//! up to the job, and a platform that slows down, speeds up or fails gets its due without an extra step.

use super::{Weights, fill::fill, goodput::Goodput};
use crate::policy::table::Table;

/// Returns the weights for a job of `n_tasks` tasks of an application. `queued`: tasks of each application
/// (row) that each platform (column) has not finished. O(platforms × (applications + log platforms)).
pub(super) fn weights(goodput: &Goodput, application: usize, n_tasks: u64, queued: &Table<u64>) -> Weights {
    let rates = goodput.rates();
    let backlogs: Vec<f64> = (0..rates.n_columns())
        .map(|platform| {
            let seconds = |row: usize| queued.at(row, platform) as f64 / rates.at(row, platform);
            (0..rates.n_rows()).map(seconds).sum()
        })
        .collect();
    let same = vec![1.0; backlogs.len()];
    let amounts = fill(n_tasks as f64, rates.row(application), &backlogs, &same);
    let in_proportion = || Weights::of(rates.row(application));
    Weights::of(&amounts).or_else(in_proportion).unwrap_or_else(|| Weights::equal(rates.n_columns()))
}
