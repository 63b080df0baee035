//! The results that paper 001 publishes.

/// The heterogeneities of table 4, in the order of all columns.
pub const HETEROGENEITIES: [f64; 3] = [0.0, 0.1, 0.2];
/// The system loads of table 4, in the order of all rows: low, medium, high.
pub const LOADS: [f64; 3] = [0.5, 0.75, 1.0];

/// The system loads of D1 and D2 before scaling.
pub const LOADS_BEFORE: [(&str, f64); 2] = [("D1", 0.34), ("D2", 0.17)];

/// A workload and its part of table 4.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in the paper.
    pub name: &'static str,
    /// By how much the average turnaround time of TLA is shorter than that of the best of BF, FF and AI2, in
    /// percent, by load and heterogeneity. The copy of the paper was damaged; the low row is the least
    /// certain.
    pub improvement: [[f64; 3]; 3],
}

/// Table 4.
pub const TABLE_4: [Row; 12] = [
    Row { name: "A1", improvement: [[1.0, 1.0, 2.0], [45.0, 49.0, 45.0], [41.0, 35.0, 34.0]] },
    Row { name: "A2", improvement: [[-2.0, 4.0, 4.0], [75.0, 79.0, 74.0], [33.0, 32.0, 27.0]] },
    Row { name: "B1", improvement: [[48.0, 37.0, 45.0], [54.0, 71.0, 70.0], [32.0, 47.0, 43.0]] },
    Row { name: "B2", improvement: [[60.0, 66.0, 59.0], [48.0, 54.0, 43.0], [24.0, 36.0, 28.0]] },
    Row { name: "C1", improvement: [[5.0, 11.0, 6.0], [50.0, 47.0, 48.0], [28.0, 26.0, 24.0]] },
    Row { name: "C2", improvement: [[1.0, 2.0, 2.0], [13.0, 13.0, 12.0], [13.0, 13.0, 12.0]] },
    Row { name: "D1", improvement: [[6.0, 28.0, 28.0], [71.0, 74.0, 68.0], [34.0, 33.0, 31.0]] },
    Row { name: "D2", improvement: [[4.0, 14.0, 20.0], [82.0, 81.0, 78.0], [42.0, 41.0, 35.0]] },
    Row { name: "E1", improvement: [[22.0, 14.0, 21.0], [85.0, 87.0, 79.0], [30.0, 31.0, 27.0]] },
    Row { name: "E2", improvement: [[1.0, 18.0, 19.0], [52.0, 55.0, 48.0], [24.0, 22.0, 19.0]] },
    Row { name: "F1", improvement: [[-3.0, 5.0, 5.0], [79.0, 81.0, 77.0], [48.0, 40.0, 38.0]] },
    Row { name: "F2", improvement: [[19.0, 2.0, 2.0], [80.0, 80.0, 77.0], [43.0, 45.0, 42.0]] },
];

/// The part of the gain of the whole queue over depth 1 that a simulation depth of 160 keeps (workload A1),
/// in percent.
pub const GAIN_AT_160: f64 = 80.0;
/// Decisions that differ from those of depth 1 (workload A1 at high load): number of different ones, and of
/// all.
pub const DIFFERING: (u64, u64) = (1_101, 23_952);
