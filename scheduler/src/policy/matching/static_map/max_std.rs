//! MaxStd: assigns the tasks whose times differ most between machines first, each to the machine where it
//! ends first.

use super::{Assignment, Floor};

pub(super) fn assign(mut floor: Floor<'_>) -> Vec<Assignment> {
    let deviation = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        (row.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / row.len() as f64).sqrt()
    };
    let deviations: Vec<f64> = floor.times.rows().map(deviation).collect();
    let mut order: Vec<usize> = (0..deviations.len()).collect();
    order.sort_by(|a, b| deviations[*b].total_cmp(&deviations[*a]));
    for task in order {
        floor.give(task, floor.best(task));
    }
    floor.given
}
