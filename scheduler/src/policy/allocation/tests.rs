//! First-level shares of paper 000's scenarios, worked out independently, and what always holds.

use proptest::prelude::*;

use super::{Allocation, Demand, equal_parts};
use crate::policy::{affinity::Affinity, table::Table};

/// Seconds of a task on one core: AutoDock, Blast, CacheBench, Montage, ThreeKaonOmega on gene, cheetah,
/// darth, lcloud (Table 3).
const RUNTIMES: [[f64; 4]; 5] = [
    [480.42, 244.05, 347.11, 294.16],
    [63.965885, 37.906707, 46.35591, 38.469758],
    [376.175549, 336.134454, 357.852883, 354.679803],
    [309.278351, 150.753769, 142.405063, 106.635071],
    [200.222469, 71.019925, 101.066816, 86.872587],
];

/// A scenario of section 6: who takes part, with how many tasks, on how many cores, and what each policy
/// gives whom.
struct Scenario {
    name: &'static str,
    users: &'static [usize],
    tasks: &'static [u64],
    cores: [u64; 4],
    shares: &'static [(&'static str, &'static [[u64; 4]])],
}

/// Eight of the 23.
const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "default",
        users: &[0, 1, 2, 3, 4],
        tasks: &[34600, 248800, 31230, 72950, 112420],
        cores: [600, 600, 600, 600],
        shares: &[
            (
                "fair|-",
                &[
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                ],
            ),
            (
                "paf|thr",
                &[[0, 0, 0, 0], [300, 300, 300, 300], [0, 0, 0, 0], [0, 0, 0, 0], [300, 300, 300, 300]],
            ),
            (
                "paf|epa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]],
            ),
            (
                "paf|rpa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]],
            ),
            (
                "aaf|thr",
                &[
                    [0, 150, 0, 120],
                    [200, 150, 0, 120],
                    [0, 150, 0, 120],
                    [200, 0, 600, 120],
                    [200, 150, 0, 120],
                ],
            ),
            (
                "aaf|epa",
                &[
                    [200, 150, 0, 120],
                    [200, 150, 0, 120],
                    [200, 150, 0, 120],
                    [0, 0, 600, 120],
                    [0, 150, 0, 120],
                ],
            ),
            (
                "aaf|rpa",
                &[[0, 300, 0, 150], [300, 0, 0, 150], [300, 0, 300, 0], [0, 0, 300, 150], [0, 300, 0, 150]],
            ),
            (
                "parr|thr",
                &[
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 0, 120, 240],
                    [120, 150, 120, 90],
                ],
            ),
            (
                "parr|epa",
                &[
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 0, 120, 240],
                    [120, 150, 120, 90],
                ],
            ),
            (
                "parr|rpa",
                &[[100, 300, 80, 0], [100, 0, 80, 300], [400, 0, 80, 0], [0, 0, 180, 300], [0, 300, 180, 0]],
            ),
        ],
    },
    Scenario {
        name: "w/o darth",
        users: &[0, 1, 2, 3, 4],
        tasks: &[34600, 248800, 31230, 72950, 112420],
        cores: [600, 600, 0, 600],
        shares: &[
            (
                "fair|-",
                &[
                    [120, 120, 0, 120],
                    [120, 120, 0, 120],
                    [120, 120, 0, 120],
                    [120, 120, 0, 120],
                    [120, 120, 0, 120],
                ],
            ),
            ("paf|thr", &[[0, 0, 0, 0], [300, 300, 0, 300], [0, 0, 0, 0], [0, 0, 0, 0], [300, 300, 0, 300]]),
            ("paf|epa", &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 0, 300], [0, 300, 0, 300]]),
            ("paf|rpa", &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 0, 300], [0, 300, 0, 300]]),
            (
                "aaf|thr",
                &[[0, 150, 0, 0], [200, 150, 0, 0], [0, 150, 0, 0], [200, 0, 0, 600], [200, 150, 0, 0]],
            ),
            (
                "aaf|epa",
                &[[200, 150, 0, 0], [200, 150, 0, 0], [200, 150, 0, 0], [0, 0, 0, 600], [0, 150, 0, 0]],
            ),
            ("aaf|rpa", &[[0, 300, 0, 0], [0, 0, 0, 300], [600, 0, 0, 0], [0, 0, 0, 300], [0, 300, 0, 0]]),
            (
                "parr|thr",
                &[
                    [120, 150, 0, 90],
                    [120, 150, 0, 90],
                    [120, 150, 0, 90],
                    [120, 0, 0, 240],
                    [120, 150, 0, 90],
                ],
            ),
            (
                "parr|epa",
                &[
                    [120, 150, 0, 90],
                    [120, 150, 0, 90],
                    [120, 150, 0, 90],
                    [120, 0, 0, 240],
                    [120, 150, 0, 90],
                ],
            ),
            (
                "parr|rpa",
                &[[60, 300, 0, 0], [60, 0, 0, 300], [360, 0, 0, 0], [60, 0, 0, 300], [60, 300, 0, 0]],
            ),
        ],
    },
    Scenario {
        name: "double gene",
        users: &[0, 1, 2, 3, 4],
        tasks: &[34600, 248800, 31230, 72950, 112420],
        cores: [1200, 600, 600, 600],
        shares: &[
            (
                "fair|-",
                &[
                    [240, 120, 120, 120],
                    [240, 120, 120, 120],
                    [240, 120, 120, 120],
                    [240, 120, 120, 120],
                    [240, 120, 120, 120],
                ],
            ),
            (
                "paf|thr",
                &[[0, 0, 0, 0], [600, 300, 300, 300], [0, 0, 0, 0], [0, 0, 0, 0], [600, 300, 300, 300]],
            ),
            (
                "paf|epa",
                &[[0, 300, 0, 0], [600, 0, 0, 0], [600, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]],
            ),
            (
                "paf|rpa",
                &[[0, 300, 0, 0], [600, 0, 0, 0], [600, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]],
            ),
            (
                "aaf|thr",
                &[
                    [0, 150, 0, 120],
                    [400, 150, 0, 120],
                    [0, 150, 0, 120],
                    [400, 0, 600, 120],
                    [400, 150, 0, 120],
                ],
            ),
            (
                "aaf|epa",
                &[
                    [400, 150, 0, 120],
                    [400, 150, 0, 120],
                    [400, 150, 0, 120],
                    [0, 0, 600, 120],
                    [0, 150, 0, 120],
                ],
            ),
            (
                "aaf|rpa",
                &[[0, 300, 0, 150], [600, 0, 0, 150], [600, 0, 300, 0], [0, 0, 300, 150], [0, 300, 0, 150]],
            ),
            (
                "parr|thr",
                &[
                    [240, 150, 120, 90],
                    [240, 150, 120, 90],
                    [240, 150, 120, 90],
                    [240, 0, 120, 240],
                    [240, 150, 120, 90],
                ],
            ),
            (
                "parr|epa",
                &[
                    [240, 150, 120, 90],
                    [240, 150, 120, 90],
                    [240, 150, 120, 90],
                    [240, 0, 120, 240],
                    [240, 150, 120, 90],
                ],
            ),
            (
                "parr|rpa",
                &[[300, 300, 0, 0], [300, 0, 0, 300], [600, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 0]],
            ),
        ],
    },
    Scenario {
        name: "half darth",
        users: &[0, 1, 2, 3, 4],
        tasks: &[34600, 248800, 31230, 72950, 112420],
        cores: [600, 600, 296, 600],
        shares: &[
            (
                "fair|-",
                &[
                    [120, 120, 60, 120],
                    [120, 120, 59, 120],
                    [120, 120, 59, 120],
                    [120, 120, 59, 120],
                    [120, 120, 59, 120],
                ],
            ),
            (
                "paf|thr",
                &[[0, 0, 0, 0], [300, 300, 148, 300], [0, 0, 0, 0], [0, 0, 0, 0], [300, 300, 148, 300]],
            ),
            (
                "paf|epa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 148, 300], [0, 300, 148, 300]],
            ),
            (
                "paf|rpa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 148, 300], [0, 300, 148, 300]],
            ),
            (
                "aaf|thr",
                &[
                    [0, 150, 0, 120],
                    [200, 150, 0, 120],
                    [0, 150, 0, 120],
                    [200, 0, 296, 120],
                    [200, 150, 0, 120],
                ],
            ),
            (
                "aaf|epa",
                &[
                    [200, 150, 0, 120],
                    [200, 150, 0, 120],
                    [200, 150, 0, 120],
                    [0, 0, 296, 120],
                    [0, 150, 0, 120],
                ],
            ),
            (
                "aaf|rpa",
                &[[0, 300, 0, 150], [300, 0, 0, 150], [300, 0, 148, 0], [0, 0, 148, 150], [0, 300, 0, 150]],
            ),
            (
                "parr|thr",
                &[
                    [120, 150, 60, 90],
                    [120, 150, 59, 90],
                    [120, 150, 59, 90],
                    [120, 0, 59, 240],
                    [120, 150, 59, 90],
                ],
            ),
            (
                "parr|epa",
                &[
                    [120, 150, 60, 90],
                    [120, 150, 59, 90],
                    [120, 150, 59, 90],
                    [120, 0, 59, 240],
                    [120, 150, 59, 90],
                ],
            ),
            (
                "parr|rpa",
                &[[100, 300, 20, 0], [100, 0, 19, 300], [400, 0, 19, 0], [0, 0, 119, 300], [0, 300, 119, 0]],
            ),
        ],
    },
    Scenario {
        name: "double lcloud",
        users: &[0, 1, 2, 3, 4],
        tasks: &[34600, 248800, 31230, 72950, 112420],
        cores: [600, 600, 600, 1200],
        shares: &[
            (
                "fair|-",
                &[
                    [120, 120, 120, 240],
                    [120, 120, 120, 240],
                    [120, 120, 120, 240],
                    [120, 120, 120, 240],
                    [120, 120, 120, 240],
                ],
            ),
            (
                "paf|thr",
                &[[0, 0, 0, 0], [300, 300, 300, 600], [0, 0, 0, 0], [0, 0, 0, 0], [300, 300, 300, 600]],
            ),
            (
                "paf|epa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 300, 600], [0, 300, 300, 600]],
            ),
            (
                "paf|rpa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 300, 600], [0, 300, 300, 600]],
            ),
            (
                "aaf|thr",
                &[
                    [0, 150, 0, 240],
                    [200, 150, 0, 240],
                    [0, 150, 0, 240],
                    [200, 0, 600, 240],
                    [200, 150, 0, 240],
                ],
            ),
            (
                "aaf|epa",
                &[
                    [200, 150, 0, 240],
                    [200, 150, 0, 240],
                    [200, 150, 0, 240],
                    [0, 0, 600, 240],
                    [0, 150, 0, 240],
                ],
            ),
            (
                "aaf|rpa",
                &[[0, 300, 0, 300], [300, 0, 0, 300], [300, 0, 300, 0], [0, 0, 300, 300], [0, 300, 0, 300]],
            ),
            (
                "parr|thr",
                &[
                    [120, 150, 120, 210],
                    [120, 150, 120, 210],
                    [120, 150, 120, 210],
                    [120, 0, 120, 360],
                    [120, 150, 120, 210],
                ],
            ),
            (
                "parr|epa",
                &[
                    [120, 150, 120, 210],
                    [120, 150, 120, 210],
                    [120, 150, 120, 210],
                    [120, 0, 120, 360],
                    [120, 150, 120, 210],
                ],
            ),
            (
                "parr|rpa",
                &[
                    [50, 300, 100, 150],
                    [50, 0, 100, 450],
                    [500, 0, 100, 0],
                    [0, 0, 150, 450],
                    [0, 300, 150, 150],
                ],
            ),
        ],
    },
    Scenario {
        name: "w/o CacheBench",
        users: &[0, 1, 3, 4],
        tasks: &[34600, 248800, 72950, 112420],
        cores: [600, 600, 600, 600],
        shares: &[
            (
                "fair|-",
                &[[150, 150, 150, 150], [150, 150, 150, 150], [150, 150, 150, 150], [150, 150, 150, 150]],
            ),
            ("paf|thr", &[[0, 0, 0, 0], [300, 300, 300, 300], [0, 0, 0, 0], [300, 300, 300, 300]]),
            ("paf|epa", &[[300, 300, 0, 0], [300, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]]),
            ("paf|rpa", &[[300, 300, 0, 0], [300, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]]),
            ("aaf|thr", &[[0, 200, 0, 150], [300, 200, 0, 150], [0, 0, 600, 150], [300, 200, 0, 150]]),
            ("aaf|epa", &[[300, 200, 0, 150], [300, 200, 0, 150], [0, 0, 600, 150], [0, 200, 0, 150]]),
            ("aaf|rpa", &[[300, 300, 0, 0], [300, 0, 200, 0], [0, 0, 200, 600], [0, 300, 200, 0]]),
            (
                "parr|thr",
                &[[150, 200, 150, 100], [150, 200, 150, 100], [150, 0, 150, 300], [150, 200, 150, 100]],
            ),
            (
                "parr|epa",
                &[[150, 200, 150, 100], [150, 200, 150, 100], [150, 0, 150, 300], [150, 200, 150, 100]],
            ),
            ("parr|rpa", &[[300, 150, 150, 0], [300, 0, 300, 0], [0, 0, 0, 600], [0, 450, 150, 0]]),
        ],
    },
    Scenario {
        name: "small AutoDock",
        users: &[0, 1, 2, 3, 4],
        tasks: &[17300, 497600, 62460, 145900, 224840],
        cores: [600, 600, 600, 600],
        shares: &[
            (
                "fair|-",
                &[
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                ],
            ),
            (
                "paf|thr",
                &[[0, 0, 0, 0], [300, 300, 300, 300], [0, 0, 0, 0], [0, 0, 0, 0], [300, 300, 300, 300]],
            ),
            (
                "paf|epa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]],
            ),
            (
                "paf|rpa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]],
            ),
            (
                "aaf|thr",
                &[
                    [0, 150, 0, 120],
                    [200, 150, 0, 120],
                    [0, 150, 0, 120],
                    [200, 0, 600, 120],
                    [200, 150, 0, 120],
                ],
            ),
            (
                "aaf|epa",
                &[
                    [200, 150, 0, 120],
                    [200, 150, 0, 120],
                    [200, 150, 0, 120],
                    [0, 0, 600, 120],
                    [0, 150, 0, 120],
                ],
            ),
            (
                "aaf|rpa",
                &[[0, 300, 0, 150], [300, 0, 0, 150], [300, 0, 300, 0], [0, 0, 300, 150], [0, 300, 0, 150]],
            ),
            (
                "parr|thr",
                &[
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 0, 120, 240],
                    [120, 150, 120, 90],
                ],
            ),
            (
                "parr|epa",
                &[
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 0, 120, 240],
                    [120, 150, 120, 90],
                ],
            ),
            (
                "parr|rpa",
                &[[100, 300, 80, 0], [100, 0, 80, 300], [400, 0, 80, 0], [0, 0, 180, 300], [0, 300, 180, 0]],
            ),
        ],
    },
    Scenario {
        name: "small Montage",
        users: &[0, 1, 2, 3, 4],
        tasks: &[69200, 497600, 62460, 36475, 224840],
        cores: [600, 600, 600, 600],
        shares: &[
            (
                "fair|-",
                &[
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                    [120, 120, 120, 120],
                ],
            ),
            (
                "paf|thr",
                &[[0, 0, 0, 0], [300, 300, 300, 300], [0, 0, 0, 0], [0, 0, 0, 0], [300, 300, 300, 300]],
            ),
            (
                "paf|epa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]],
            ),
            (
                "paf|rpa",
                &[[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]],
            ),
            (
                "aaf|thr",
                &[
                    [0, 150, 0, 120],
                    [200, 150, 0, 120],
                    [0, 150, 0, 120],
                    [200, 0, 600, 120],
                    [200, 150, 0, 120],
                ],
            ),
            (
                "aaf|epa",
                &[
                    [200, 150, 0, 120],
                    [200, 150, 0, 120],
                    [200, 150, 0, 120],
                    [0, 0, 600, 120],
                    [0, 150, 0, 120],
                ],
            ),
            (
                "aaf|rpa",
                &[[0, 300, 0, 150], [300, 0, 0, 150], [300, 0, 300, 0], [0, 0, 300, 150], [0, 300, 0, 150]],
            ),
            (
                "parr|thr",
                &[
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 0, 120, 240],
                    [120, 150, 120, 90],
                ],
            ),
            (
                "parr|epa",
                &[
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 150, 120, 90],
                    [120, 0, 120, 240],
                    [120, 150, 120, 90],
                ],
            ),
            (
                "parr|rpa",
                &[[100, 300, 80, 0], [100, 0, 80, 300], [400, 0, 80, 0], [0, 0, 180, 300], [0, 300, 180, 0]],
            ),
        ],
    },
];

fn policy(words: &str) -> (Allocation, Affinity) {
    let (policy, affinity) = words.split_once('|').expect("two words");
    let policy = match policy {
        "fair" => Allocation::Equal,
        "paf" => Allocation::Paf { percent: 50 },
        "aaf" => Allocation::Aaf { percent: 50 },
        _ => Allocation::default(),
    };
    let affinity = match affinity {
        "thr" => Affinity::Throughput,
        "epa" => Affinity::Epa,
        _ => Affinity::Rpa,
    };
    (policy, affinity)
}

#[test]
fn shares_of_the_papers_scenarios() {
    for scenario in SCENARIOS {
        // A platform without nodes is not there.
        let platforms: Vec<usize> = (0..4).filter(|platform| scenario.cores[*platform] > 0).collect();
        let runtimes = |user: &usize| platforms.iter().map(|platform| RUNTIMES[*user][*platform]).collect();
        let runtimes = Table::from_rows(&scenario.users.iter().map(runtimes).collect::<Vec<_>>()).unwrap();
        let cores: Vec<u64> = platforms.iter().map(|platform| scenario.cores[*platform]).collect();
        for (words, expected) in scenario.shares {
            let (policy, affinity) = policy(words);
            let affinity = affinity.table(&runtimes, &vec![true; scenario.users.len()]);
            let demand =
                Demand { tasks: scenario.tasks, cores: &cores, affinity: &affinity, favourites: None };
            let shares = policy.share(&demand).cores;
            for (user, expected) in expected.iter().enumerate() {
                let expected: Vec<u64> = platforms.iter().map(|platform| expected[*platform]).collect();
                assert_eq!(shares.row(user), expected, "{}, {words}, user {user}", scenario.name);
            }
        }
    }
}

#[test]
fn a_platform_stays_with_whom_it_went_to() {
    let affinity = Table::from_rows(&[vec![2.0], vec![1.0]]).unwrap();
    let before = Table::from_rows(&[vec![false], vec![true]]).unwrap();
    let demand = |favourites| Demand { tasks: &[9, 9], cores: &[8], affinity: &affinity, favourites };
    let paf = Allocation::Paf { percent: 50 };
    let first = paf.share(&demand(None));
    assert_eq!((first.cores.at(0, 0), first.cores.at(1, 0)), (8, 0));
    let again = paf.share(&demand(Some(&before)));
    assert_eq!((again.cores.at(0, 0), again.cores.at(1, 0)), (4, 4));
    assert_eq!(again.favourites.unwrap().row(0), [true]);
}

#[test]
fn equal_parts_are_capped_and_leave_nothing_over() {
    assert_eq!(equal_parts(10, &[9, 9, 9]), [4, 3, 3]);
    assert_eq!(equal_parts(10, &[1, 9, 9]), [1, 5, 4]);
    assert_eq!(equal_parts(100, &[1, 2]), [1, 2]);
    assert!(equal_parts(5, &[]).is_empty());
}

fn demands() -> impl Strategy<Value = (Vec<u64>, Vec<u64>, Vec<Vec<f64>>)> {
    (1..6usize, 1..5usize).prop_flat_map(|(n_users, n_platforms)| {
        let row = prop::collection::vec(0.1..10.0f64, n_platforms);
        let tasks = prop::collection::vec(0..100u64, n_users);
        (tasks, prop::collection::vec(0..100u64, n_platforms), prop::collection::vec(row, n_users))
    })
}

proptest! {
    #[test]
    fn nothing_is_given_twice_and_nothing_is_left_that_somebody_needs((tasks, cores, affinity) in demands(), unit in 0..40u64, percent in 0..=100u32) {
        let affinity = Table::from_rows(&affinity).unwrap();
        let demand = Demand { tasks: &tasks, cores: &cores, affinity: &affinity, favourites: None };
        let policies = [
            Allocation::Equal,
            Allocation::Paf { percent },
            Allocation::Aaf { percent },
            Allocation::PaRr { unit_cores: unit },
        ];
        for policy in policies {
            let shares = policy.share(&demand).cores;
            let given: u64 = shares.rows().flatten().sum();
            prop_assert_eq!(given, cores.iter().sum::<u64>().min(tasks.iter().sum()), "{:?}", policy);
            for (user, n_tasks) in tasks.iter().enumerate() {
                prop_assert!(shares.row(user).iter().sum::<u64>() <= *n_tasks);
            }
            for (platform, n_cores) in cores.iter().enumerate() {
                prop_assert!(shares.rows().map(|row| row[platform]).sum::<u64>() <= *n_cores);
            }
        }
        let fair = equal_parts(cores.iter().sum(), &tasks);
        let shares = Allocation::PaRr { unit_cores: unit }.share(&demand).cores;
        for (user, fair) in fair.iter().enumerate() {
            prop_assert_eq!(shares.row(user).iter().sum::<u64>(), *fair);
        }
    }
}
