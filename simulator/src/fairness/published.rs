//! The numbers of applications and platforms that paper 000 publishes. Rows are applications, columns
//! platforms.

/// The applications, in the order of all rows.
pub const APPLICATIONS: [&str; 5] = ["AutoDock", "Blast", "CacheBench", "Montage", "ThreeKaonOmega"];
/// The platforms, in the order of all columns.
pub const PLATFORMS: [&str; 4] = ["gene", "cheetah", "darth", "lcloud"];
/// Number of nodes of each platform (Table 5).
pub const N_NODES: [u64; 4] = [300, 75, 75, 50];
/// Cores of a node (Table 5).
pub const CORES_PER_NODE: [u64; 4] = [2, 8, 8, 12];
/// Tasks of each application in the default scenario (Table 6).
pub const N_TASKS: [u64; 5] = [34_600, 248_800, 31_230, 72_950, 112_420];
/// Seconds of a task on one core of an empty node: 3600 / throughput (Table 3), AutoDock from the text.
pub const ALONE: [[f64; 4]; 5] = [
    [480.42, 244.05, 347.11, 294.16],
    [63.965885, 37.906707, 46.35591, 38.469758],
    [376.175549, 336.134454, 357.852883, 354.679803],
    [309.278351, 150.753769, 142.405063, 106.635071],
    [200.222469, 71.019925, 101.066816, 86.872587],
];
/// Additional seconds of a task because of co-runners, on average (Table 4, raw).
pub const MORE: [[f64; 4]; 5] = [
    [26.75, 24.05, 34.85, 25.47],
    [0.44, 12.8, 3.46, 4.62],
    [47.59, 0.9, 13.3, 1.3],
    [24.7, 106.72, 14.01, 13.57],
    [9.41, 4.42, 6.45, 3.77],
];

/// The pressure of a task on CPU, memory and I/O. Not published: chosen so that the remarks of sections 2.3
/// and 6 hold.
pub const PRESSURE: [[f64; 3]; 5] =
    [[1.0, 0.3, 0.1], [0.4, 0.3, 1.0], [0.4, 1.5, 0.0], [0.3, 0.3, 1.5], [1.0, 0.2, 0.05]];
/// The scarcity of CPU, memory and I/O on each platform. Chosen in the same way.
pub const SCARCITY: [[f64; 3]; 4] = [[0.1, 1.0, 0.9], [0.1, 0.1, 1.0], [0.3, 0.3, 0.3], [0.3, 0.1, 0.6]];

/// Effective platform affinity (Table 3).
pub const EPA: [[f64; 4]; 5] = [
    [0.614, 1.532, 0.978, 1.214],
    [0.640, 1.308, 1.009, 1.284],
    [0.929, 1.080, 0.994, 1.006],
    [0.431, 1.234, 1.326, 1.883],
    [0.431, 1.822, 1.181, 1.428],
];
/// Relative platform affinity (Table 3).
pub const RPA: [[f64; 4]; 5] = [
    [0.966, 1.169, 0.918, 0.974],
    [1.009, 0.997, 0.955, 1.042],
    [1.473, 0.854, 0.988, 0.847],
    [0.684, 0.892, 1.203, 1.484],
    [0.678, 1.341, 1.060, 1.102],
];
/// Slow-down of a task by co-runners in percent, on average (Table 4, normalized).
pub const MORE_PERCENT: [[f64; 4]; 5] = [
    [5.57, 9.86, 10.04, 8.66],
    [0.69, 33.76, 7.47, 12.01],
    [12.65, 0.27, 3.72, 0.37],
    [7.99, 70.78, 9.84, 12.73],
    [4.70, 6.22, 6.38, 4.34],
];
/// Half of the last printed digit: of tasks per hour in Table 3, and of AutoDock's seconds in the text.
pub const ROUNDING: f64 = 0.005;
