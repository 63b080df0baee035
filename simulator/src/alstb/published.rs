//! The results that paper 002 states. Its figures are bars without numbers, so there are only sentences, here
//! in our words.

/// Authors, title, place and year.
pub const PAPER: &str = "Jian Xiao, Yu Zhang, Shuwei Chen and Huashan Yu: An Application-Level Scheduling with \
    Task Bundling Approach for Many-Task Computing in Heterogeneous Environments. NPC 2012, LNCS 7513 (paper 002)";

/// Statements on Fig. 4, section 5.2: how the task-level heuristics change as jobs have more tasks.
pub const OF_FIG_4: [&str; 3] = [
    "the heuristics do well with few tasks and fall behind ALSTB as tasks grow",
    "the gap to ALSTB widens as tasks grow",
    "ALSTB is clearly lower",
];

/// Tasks of each job in Fig. 4.
pub const N_TASKS_OF_FIG_4: [u64; 5] = [50, 100, 200, 300, 500];

/// Results of an independent computation of Fig. 4, over ten instances, with times varying by 0.6: ratios of
/// MinMin, Sufferage and MaxStd to ALSTB, by metric, by number of tasks.
pub const INDEPENDENT_OF_FIG_4: [[[f64; 3]; 3]; 5] = [
    [[0.92, 1.00, 0.89], [1.94, 2.99, 2.72], [1.55, 2.43, 2.32]],
    [[1.05, 1.12, 0.93], [2.10, 3.84, 3.04], [1.47, 2.10, 1.95]],
    [[1.16, 1.22, 1.07], [2.29, 3.90, 3.17], [1.58, 2.08, 1.91]],
    [[1.17, 1.22, 1.02], [2.75, 4.77, 3.74], [1.67, 2.07, 1.93]],
    [[1.62, 1.72, 1.45], [3.43, 5.92, 4.66], [1.87, 2.24, 2.07]],
];

/// Nodes, applications and jobs of Fig. 5.
pub const SIZE_OF_FIG_5: (usize, usize, usize) = (1000, 50, 100);
/// Fewest and most tasks of a job in Fig. 5.
pub const N_TASKS_OF_FIG_5: (u64, u64) = (10_000, 50_000);

/// A setting of Fig. 5, section 5.3.
#[derive(Clone, Copy, Debug)]
pub struct SettingOfFig5 {
    /// Its letter.
    pub letter: &'static str,
    /// Variation of times between nodes.
    pub v_machine: f64,
    /// Variation of times between applications.
    pub v_application: f64,
    /// The policies with the lowest makespan, mean job makespan and flowtime; `None`: not stated.
    pub best: [Option<&'static str>; 3],
}

/// All four settings.
pub const FIG_5: [SettingOfFig5; 4] = [
    SettingOfFig5 {
        letter: "a",
        v_machine: 0.1,
        v_application: 0.1,
        best: [Some("R-Sufferage"), Some("R-Sufferage"), Some("ALSTB")],
    },
    SettingOfFig5 {
        letter: "b",
        v_machine: 0.1,
        v_application: 0.6,
        best: [Some("ALSTB"), Some("ALSTB"), Some("ALSTB")],
    },
    SettingOfFig5 {
        letter: "c",
        v_machine: 0.6,
        v_application: 0.1,
        best: [Some("R-Sufferage"), Some("R-Sufferage"), Some("ALSTB")],
    },
    SettingOfFig5 { letter: "d", v_machine: 0.6, v_application: 0.6, best: [None, None, Some("ALSTB")] },
];
