//! Table 3 of paper 000: AutoDock, Blast, CacheBench, Montage and ThreeKaonOmega on gene, cheetah, darth
//! and lcloud.

use super::Table;

/// Runtime in seconds of a task on one core, from the printed throughputs (3600 / throughput), AutoDock from
/// the text.
pub(in crate::policy) const RUNTIMES: [[f64; 4]; 5] = [
    [480.42, 244.05, 347.11, 294.16],
    [63.965885, 37.906707, 46.35591, 38.469758],
    [376.175549, 336.134454, 357.852883, 354.679803],
    [309.278351, 150.753769, 142.405063, 106.635071],
    [200.222469, 71.019925, 101.066816, 86.872587],
];

/// EPA as printed.
pub(super) const EPA: [[f64; 4]; 5] = [
    [0.614, 1.532, 0.978, 1.214],
    [0.64, 1.308, 1.009, 1.284],
    [0.929, 1.08, 0.994, 1.006],
    [0.431, 1.234, 1.326, 1.883],
    [0.431, 1.822, 1.181, 1.428],
];

/// RPA as printed.
pub(super) const RPA: [[f64; 4]; 5] = [
    [0.966, 1.169, 0.918, 0.974],
    [1.009, 0.997, 0.955, 1.042],
    [1.473, 0.854, 0.988, 0.847],
    [0.684, 0.892, 1.203, 1.484],
    [0.678, 1.341, 1.06, 1.102],
];

pub(super) fn runtimes() -> Table<f64> {
    Table::from_rows(&RUNTIMES.map(|row| row.to_vec())).expect("a rectangle")
}

/// The paper's runtimes were not rounded, its throughputs are: the last printed digit may be off by one.
pub(super) fn assert_near(table: &Table<f64>, printed: &[[f64; 4]; 5]) {
    for (row, printed) in table.rows().zip(printed) {
        for (value, printed) in row.iter().zip(printed) {
            assert!((value - printed).abs() < 0.001, "{value} where {printed} is printed");
        }
    }
}
