//! Tests of runtimes and mappings that were computed independently, and of the report of quick runs.

use scheduler::policy::{
    affinity::corunner::CorunnerAffinity,
    mapping::{Mapping, Site},
};

use super::{Interference, combinations, mix, published::*, reproduce};
use crate::report::{Effort, Part, Shape, Source, Word};

/// Application, platform, cores of each application, seconds.
const RUNTIMES: &[(usize, usize, [u64; 5], f64)] = &[
    (0, 0, [2, 0, 0, 0, 0], 493.464978),
    (0, 0, [1, 1, 0, 0, 0], 496.263582),
    (0, 0, [1, 0, 1, 0, 0], 555.170787),
    (0, 0, [1, 0, 0, 1, 0], 501.509781),
    (0, 0, [1, 0, 0, 0, 1], 489.440872),
    (0, 1, [8, 0, 0, 0, 0], 264.533619),
    (0, 1, [4, 4, 0, 0, 0], 270.635286),
    (0, 1, [4, 0, 4, 0, 0], 258.552114),
    (0, 1, [4, 0, 0, 4, 0], 279.960695),
    (0, 1, [4, 0, 0, 0, 4], 263.036608),
    (0, 1, [2, 2, 2, 2, 0], 271.287657),
    (0, 1, [2, 2, 2, 0, 2], 263.405707),
    (0, 1, [2, 2, 0, 2, 2], 274.202911),
    (0, 1, [2, 0, 2, 2, 2], 267.285403),
    (0, 2, [8, 0, 0, 0, 0], 399.266901),
    (0, 2, [4, 4, 0, 0, 0], 375.840058),
    (0, 2, [4, 0, 4, 0, 0], 386.944959),
    (0, 2, [4, 0, 0, 4, 0], 373.905854),
    (0, 2, [4, 0, 0, 0, 4], 397.44535),
    (0, 2, [2, 2, 2, 2, 0], 370.233475),
    (0, 2, [2, 2, 2, 0, 2], 380.429991),
    (0, 2, [2, 2, 0, 2, 2], 374.191826),
    (0, 2, [2, 0, 2, 2, 2], 379.381587),
    (0, 3, [12, 0, 0, 0, 0], 332.415936),
    (0, 3, [6, 6, 0, 0, 0], 317.90686),
    (0, 3, [6, 0, 6, 0, 0], 315.52234),
    (0, 3, [6, 0, 0, 6, 0], 317.90686),
    (0, 3, [6, 0, 0, 0, 6], 331.649655),
    (0, 3, [3, 3, 3, 3, 0], 310.861768),
    (0, 3, [3, 3, 3, 0, 3], 316.402229),
    (0, 3, [3, 3, 0, 3, 3], 317.602122),
    (0, 3, [3, 0, 3, 3, 3], 316.402229),
    (3, 0, [0, 0, 0, 2, 0], 388.771792),
    (3, 0, [1, 0, 0, 1, 0], 310.586838),
    (3, 0, [0, 1, 0, 1, 0], 347.323808),
    (3, 0, [0, 0, 1, 1, 0], 313.416496),
    (3, 0, [0, 0, 0, 1, 1], 309.792818),
    (3, 1, [0, 0, 0, 8, 0], 494.472362),
    (3, 1, [4, 0, 0, 4, 0], 232.402255),
    (3, 1, [0, 4, 0, 4, 0], 380.244034),
    (3, 1, [0, 0, 4, 4, 0], 221.716749),
    (3, 1, [0, 0, 0, 4, 4], 226.000467),
    (3, 1, [2, 2, 2, 2, 0], 199.648274),
    (3, 1, [2, 2, 0, 2, 2], 201.426911),
    (3, 1, [2, 0, 2, 2, 2], 164.219413),
    (3, 1, [0, 2, 2, 2, 2], 197.133455),
    (3, 2, [0, 0, 0, 8, 0], 179.129313),
    (3, 2, [4, 0, 0, 4, 0], 154.164814),
    (3, 2, [0, 4, 0, 4, 0], 168.042525),
    (3, 2, [0, 0, 4, 4, 0], 154.455841),
    (3, 2, [0, 0, 0, 4, 4], 153.173353),
    (3, 2, [2, 2, 2, 2, 0], 151.066223),
    (3, 2, [2, 2, 0, 2, 2], 150.513626),
    (3, 2, [2, 0, 2, 2, 2], 146.554972),
    (3, 2, [0, 2, 2, 2, 2], 150.634902),
    (3, 3, [0, 0, 0, 12, 0], 145.534995),
    (3, 3, [6, 0, 0, 6, 0], 117.960754),
    (3, 3, [0, 6, 0, 6, 0], 133.52339),
    (3, 3, [0, 0, 6, 6, 0], 116.264083),
    (3, 3, [0, 0, 0, 6, 6], 117.190241),
    (3, 3, [3, 3, 3, 3, 0], 113.91023),
    (3, 3, [3, 3, 0, 3, 3], 114.310785),
    (3, 3, [3, 0, 3, 3, 3], 109.553893),
    (3, 3, [0, 3, 3, 3, 3], 113.597269),
];

/// First-level shares of the default scenario, and the nodes of each combination by platform.
type Case = (&'static str, [[u64; 4]; 5], &'static [(usize, [u64; 5], u64)]);

const MAPPINGS: &[Case] = &[
    (
        "fair|-|maf",
        [
            [120, 120, 120, 120],
            [120, 120, 120, 120],
            [120, 120, 120, 120],
            [120, 120, 120, 120],
            [120, 120, 120, 120],
        ],
        &[
            (0, [0, 0, 1, 0, 1], 120),
            (0, [1, 0, 0, 1, 0], 120),
            (0, [0, 2, 0, 0, 0], 60),
            (1, [2, 0, 2, 2, 2], 60),
            (1, [0, 8, 0, 0, 0], 15),
            (2, [2, 2, 2, 2, 0], 60),
            (2, [0, 0, 0, 0, 8], 15),
            (3, [3, 0, 3, 3, 3], 40),
            (3, [0, 12, 0, 0, 0], 10),
        ],
    ),
    (
        "paf|rpa|maf",
        [[0, 300, 0, 0], [300, 0, 0, 0], [300, 0, 0, 0], [0, 0, 300, 300], [0, 300, 300, 300]],
        &[
            (0, [0, 1, 1, 0, 0], 300),
            (1, [4, 0, 0, 0, 4], 75),
            (2, [0, 0, 0, 4, 4], 75),
            (3, [0, 0, 0, 6, 6], 50),
        ],
    ),
    (
        "aaf|rpa|maf",
        [[0, 300, 0, 150], [300, 0, 0, 150], [300, 0, 300, 0], [0, 0, 300, 150], [0, 300, 0, 150]],
        &[
            (0, [0, 1, 1, 0, 0], 300),
            (1, [4, 0, 0, 0, 4], 75),
            (2, [0, 0, 4, 4, 0], 75),
            (3, [3, 3, 0, 3, 3], 50),
        ],
    ),
    (
        "parr|rpa|maf",
        [[100, 300, 80, 0], [100, 0, 80, 300], [400, 0, 80, 0], [0, 0, 180, 300], [0, 300, 180, 0]],
        &[
            (0, [0, 1, 1, 0, 0], 100),
            (0, [1, 0, 1, 0, 0], 100),
            (0, [0, 0, 2, 0, 0], 100),
            (1, [4, 0, 0, 0, 4], 75),
            (2, [2, 2, 2, 2, 0], 40),
            (2, [0, 0, 0, 4, 4], 25),
            (2, [0, 0, 0, 0, 8], 10),
            (3, [0, 6, 0, 6, 0], 50),
        ],
    ),
];

#[test]
fn co_runners_cost_what_the_model_says() {
    let model = Interference::new();
    for (application, platform, expected, seconds) in RUNTIMES {
        let found = model.runtime(*application, *platform, expected);
        assert!((found - seconds).abs() < 1e-5, "{found}, not {seconds}, of {application} in {expected:?}");
    }
}

#[test]
fn averages_are_those_of_table_4() {
    let model = Interference::new();
    for application in 0..5 {
        for platform in 0..4 {
            let all = combinations(platform);
            let with = all.iter().filter(|members| members.contains(&application));
            let runtimes: Vec<f64> =
                with.map(|m| model.runtime(application, platform, &mix(platform, m))).collect();
            let mean = runtimes.iter().sum::<f64>() / runtimes.len() as f64 - ALONE[application][platform];
            assert!((mean - MORE[application][platform]).abs() < 1e-9);
        }
    }
}

#[test]
fn mappings_of_the_default_scenario() {
    let model = Interference::new();
    for (words, shares, expected) in MAPPINGS {
        for platform in 0..4 {
            let combinations = model.combinations(platform, &[0, 1, 2, 3, 4]);
            let site = Site {
                n_nodes: N_NODES[platform],
                cores_per_node: CORES_PER_NODE[platform],
                shares: &shares.map(|row| row[platform]),
                alone: &ALONE.map(|row| row[platform]),
                combinations: &combinations,
                affinity: CorunnerAffinity::Normalized,
                seed: 1,
            };
            let placed = Mapping::default().place(&site);
            let named = combinations.iter().zip(&placed.n_nodes).filter(|(_, n)| **n > 0);
            let mut found: Vec<_> = named.map(|(c, n)| (platform, mix(platform, &c.members), *n)).collect();
            let mut expected: Vec<_> = expected.iter().copied().filter(|row| row.0 == platform).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{words} on {}", PLATFORMS[platform]);
        }
    }
}

#[test]
fn a_quick_report_is_whole_and_the_same_for_the_same_seed() {
    let report = reproduce(Effort::Quick, 1, &());
    let text = format!("{report:?}");
    assert_eq!(text, format!("{:?}", reproduce(Effort::Quick, 1, &())));
    assert!(!text.contains("NaN"), "{text}");
    // Values from the published throughputs alone are exact in any run, except a bound that they contradict.
    let words = |part: &Part| -> Vec<Word> {
        let of_paper = part.claims.iter().filter(|claim| claim.source == Source::Paper);
        of_paper.map(|claim| claim.verdict.word).collect()
    };
    assert_eq!(words(&report.parts[0]), [Word::Exact, Word::Exact, Word::Exact, Word::Not]);
    assert_eq!(words(&report.parts[1]), [Word::Exact]);
    // 4 + 1 of the tables; 8, 4, 8 and 3 of sections 6.2 to 6.5; 5 and 2 of 6.6.
    let by_part: Vec<usize> = report.parts.iter().map(|part| words(part).len()).collect();
    assert_eq!(by_part, [4, 1, 8, 4, 8, 3, 5, 2]);
    assert_eq!(report.claims().count(), 35);
    assert_eq!(Word::ALL.map(|word| report.count(word)).iter().sum::<usize>(), 35);
    for table in report.parts.iter().flat_map(|part| &part.tables) {
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.name);
        assert!(!table.name.starts_with("first-level") || table.rows.len() == 23, "{}", table.name);
    }
    for figure in report.parts.iter().flat_map(|part| &part.figures) {
        match &figure.shape {
            Shape::Bars { categories, series } => {
                assert!(series.iter().all(|(_, values)| values.len() == categories.len()), "{}", figure.name);
            }
            Shape::Lines { series, .. } => {
                assert!(series.iter().all(|(_, points)| points.len() > 1), "{}", figure.name);
            }
        }
    }
}
