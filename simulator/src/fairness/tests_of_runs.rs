//! Runs of the default scenario compared with runs of an independent implementation.

use scheduler::policy::{
    affinity::{Affinity, corunner::CorunnerAffinity},
    allocation::Allocation,
    mapping::Mapping,
};

use super::{
    Interference,
    scenario::Scenario,
    simulation::{Sharing, run},
};

/// First level, affinity, second level, co-runner affinity; fairness and makespan (seconds).
const RUNS: &[(&str, &str, &str, &str, [f64; 2])] = &[
    ("fair", "-", "all", "norm", [0.87542, 28397.93]),
    ("fair", "-", "random", "norm", [0.86833, 26597.95]),
    ("fair", "-", "maf", "norm", [0.87219, 25162.16]),
    ("fair", "-", "maf", "raw", [0.86653, 25106.65]),
    ("fair", "-", "carr", "norm", [0.86195, 25819.83]),
    ("paf", "thr", "all", "norm", [0.61827, 28546.08]),
    ("paf", "thr", "random", "norm", [0.61208, 28212.32]),
    ("paf", "thr", "maf", "norm", [0.59589, 27615.63]),
    ("paf", "thr", "maf", "raw", [0.59589, 27615.63]),
    ("paf", "thr", "carr", "norm", [0.59433, 27657.08]),
    ("paf", "epa", "all", "norm", [0.74501, 25504.56]),
    ("paf", "epa", "random", "norm", [0.75309, 24917.1]),
    ("paf", "epa", "maf", "norm", [0.77332, 23535.36]),
    ("paf", "epa", "maf", "raw", [0.76738, 23921.04]),
    ("paf", "epa", "carr", "norm", [0.76856, 23724.15]),
    ("paf", "rpa", "all", "norm", [0.723, 25504.56]),
    ("paf", "rpa", "random", "norm", [0.73012, 25348.61]),
    ("paf", "rpa", "maf", "norm", [0.76032, 23337.75]),
    ("paf", "rpa", "maf", "raw", [0.75179, 23752.76]),
    ("paf", "rpa", "carr", "norm", [0.75514, 23494.7]),
    ("aaf", "thr", "all", "norm", [0.8394, 26846.98]),
    ("aaf", "thr", "random", "norm", [0.83799, 26097.51]),
    ("aaf", "thr", "maf", "norm", [0.83243, 25291.73]),
    ("aaf", "thr", "maf", "raw", [0.82974, 25510.0]),
    ("aaf", "thr", "carr", "norm", [0.83715, 25622.74]),
    ("aaf", "epa", "all", "norm", [0.86189, 25868.67]),
    ("aaf", "epa", "random", "norm", [0.85848, 24979.97]),
    ("aaf", "epa", "maf", "norm", [0.85611, 23958.06]),
    ("aaf", "epa", "maf", "raw", [0.85462, 24156.25]),
    ("aaf", "epa", "carr", "norm", [0.85435, 24352.81]),
    ("aaf", "rpa", "all", "norm", [0.89716, 24995.47]),
    ("aaf", "rpa", "random", "norm", [0.89494, 24226.63]),
    ("aaf", "rpa", "maf", "norm", [0.87132, 22791.78]),
    ("aaf", "rpa", "maf", "raw", [0.87132, 22791.78]),
    ("aaf", "rpa", "carr", "norm", [0.87029, 22802.66]),
    ("parr", "thr", "all", "norm", [0.89079, 26496.31]),
    ("parr", "thr", "random", "norm", [0.8835, 25179.52]),
    ("parr", "thr", "maf", "norm", [0.87928, 24280.94]),
    ("parr", "thr", "maf", "raw", [0.88548, 24154.37]),
    ("parr", "thr", "carr", "norm", [0.87797, 24371.05]),
    ("parr", "epa", "all", "norm", [0.89079, 26496.31]),
    ("parr", "epa", "random", "norm", [0.8835, 25179.52]),
    ("parr", "epa", "maf", "norm", [0.87928, 24280.94]),
    ("parr", "epa", "maf", "raw", [0.88548, 24154.37]),
    ("parr", "epa", "carr", "norm", [0.87797, 24371.05]),
    ("parr", "rpa", "all", "norm", [0.93749, 25448.91]),
    ("parr", "rpa", "random", "norm", [0.94097, 24972.18]),
    ("parr", "rpa", "maf", "norm", [0.94686, 24373.66]),
    ("parr", "rpa", "maf", "raw", [0.95034, 24598.86]),
    ("parr", "rpa", "carr", "norm", [0.94287, 24692.39]),
];

fn sharing(allocation: &str, affinity: &str, mapping: &str, corunner: &str) -> Sharing {
    Sharing {
        allocation: match allocation {
            "fair" => Allocation::Equal,
            "paf" => Allocation::Paf { percent: 50 },
            "aaf" => Allocation::Aaf { percent: 50 },
            _ => Allocation::PaRr { unit_cores: 1 },
        },
        affinity: match affinity {
            "thr" => Affinity::Throughput,
            "epa" => Affinity::Epa,
            _ => Affinity::Rpa,
        },
        mapping: match mapping {
            "all" => Mapping::AllCore,
            "random" => Mapping::Random,
            "maf" => Mapping::Maf { is_recomputed: true, is_of_pairs: false },
            _ => Mapping::CaRr { unit_nodes: 1 },
        },
        corunner: if corunner == "raw" { CorunnerAffinity::Raw } else { CorunnerAffinity::Normalized },
        seed: 1,
    }
}

#[test]
fn runs_of_the_default_scenario() {
    let (scenario, interference) = (Scenario::published(), Interference::new());
    for (allocation, affinity, mapping, corunner, [fairness, makespan]) in RUNS {
        let found = run(&scenario, sharing(allocation, affinity, mapping, corunner), &interference);
        // Random choices come from another generator.
        let tolerance = if *mapping == "random" { 0.015 } else { 0.005 };
        let off =
            [(found.fairness - fairness).abs() / fairness, (found.makespan - makespan).abs() / makespan];
        assert!(off.iter().all(|off| *off < tolerance), "{allocation} {affinity} {mapping}: {found:?}");
    }
}
