//! Numbers that paper 004 publishes about its measurements and their settings. Numbers by workload are in the
//! order of `SHAPES`.

/// Tasks per second of the bound at 128K cores (section 3).
pub const BOUND_128K: [f64; 4] = [2_330_000.0, 1_850_000.0, 1_160_000.0, 852_150.0];
/// Cores of that bound.
pub const N_CORES_128K: u64 = 131_072;
/// DAWS's throughput as a part of the bound (Table 4).
pub const RATIO_TO_BOUND: [f64; 4] = [0.99139636, 0.88238118, 0.85690323, 0.90605218];
/// Efficiency of all-pairs with FLDS at 200 cores.
pub const ALL_PAIRS_FLDS_200: f64 = 0.859;
/// Cores of the largest measurement on a real machine.
pub const N_CORES_MEASURED: u64 = 200;
/// Tasks for each core (k of eq. 1).
pub const TASKS_PER_CORE: u64 = 1000;
/// Mean seconds of a task (l of eq. 1); each is drawn between 0 and twice that.
pub const RUN_S: f64 = 0.05;
/// Tasks of a pipe, and children (parents) of a task in Fan-Out (Fan-In).
pub const DEGREE: u64 = 10;
/// Number of files of all-pairs, each compared with each; from the reference simulation.
pub const N_FILES: u64 = 500;
/// Seconds of a task of all-pairs; from the reference simulation.
pub const ALL_PAIRS_RUN_S: f64 = 0.1;
/// Bytes of each file of all-pairs; from the reference simulation.
pub const FILE_BYTES: u64 = 12_000_000;
