//! Numbers that paper 003 publishes, and numbers of an independent computation of the same model.

/// Sizes of the jobs in the example of section 3.3.
pub const EXAMPLE_JOBS: [u64; 3] = [30_000, 150_000, 70_000];
/// Weights of three applications on cluster and cloud in the example.
pub const EXAMPLE_WEIGHTS: [[f64; 2]; 3] = [[0.55, 0.45], [0.70, 0.30], [0.55, 0.45]];
/// Applications of the jobs in the example, by index.
pub const EXAMPLE_APPLICATIONS: [usize; 3] = [1, 0, 2];
/// Rows of weights that the text of the example uses for the jobs.
pub const EXAMPLE_ROWS_OF_THE_TEXT: [usize; 3] = [0, 1, 2];
/// Weight moved at a time in the example.
pub const EXAMPLE_DELTA: f64 = 0.1;
/// Tasks that wait on cluster and cloud in the example.
pub const EXAMPLE_QUEUED: [u64; 2] = [169_000, 81_000];
/// The threshold in the example, to four digits.
pub const EXAMPLE_THRESHOLD: f64 = 83_333.333_3;
/// The weights after LOAD in the example, to two digits.
pub const EXAMPLE_WEIGHTS_AFTER: [[f64; 2]; 3] = [[0.45, 0.55], [0.60, 0.40], [0.45, 0.55]];

/// Gains over core-based weights in the abstract, in percent: throughput, queueing time, utilisation.
pub const GAINS: [f64; 3] = [62.0, -43.0, 38.0];
/// The mean of the twelve gains in throughput that section 4.4 prints, in percent. Only the mean was
/// available.
pub const MEAN_OF_PRINTED_GAINS: f64 = 43.5;

/// Mean gains over core-based weights in an independent computation, in percent.
pub const REFERENCE: [(&str, [f64; 3]); 4] = [
    ("static profiled weights", [13.535_916_655_209_72, -25.168_498_993_094_34, 14.549_480_577_8]),
    ("LOAD alone", [13.247_211_005_336_59, -24.481_727_237_310_91, 14.338_106_870_5]),
    ("published", [17.977_917_318_379_485, -46.679_933_534_561_07, 17.157_073_609_7]),
    ("sound", [22.578_186_744_613_74, -52.438_204_543_9, 20.603_628_062_8]),
];
/// Changes of vCPUs in a run of the published policy in that computation, CPU-bound and mixed.
pub const REFERENCE_CHANGES: (usize, usize) = (73, 106);
/// The range of these changes for the sound policy.
pub const REFERENCE_CHANGES_SOUND: (usize, usize) = (5, 38);
/// The largest number of steps in a run that would have left 0 to 1.
pub const REFERENCE_CLAMPED: usize = 13;
