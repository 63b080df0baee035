//! The runs of section 6: every pair of first and second level in every scenario.

use scheduler::policy::{
    affinity::{Affinity, corunner::CorunnerAffinity},
    allocation::Allocation,
    mapping::Mapping,
};

use crate::{
    grid,
    report::{Draws, Effort, Progress},
};

use super::{
    Interference,
    scenario::Scenario,
    simulation::{Outcome, Sharing, run},
};

/// A first level: its name, its affinity's name, and both.
pub type First = (&'static str, &'static str, Allocation, Affinity);
/// A second level: its name, and both parts.
pub type Second = (&'static str, Mapping, CorunnerAffinity);

/// The paper's parameters: k is 50, D_unit and P_unit are 1.
const PAF: Allocation = Allocation::Paf { percent: 50 };
const AAF: Allocation = Allocation::Aaf { percent: 50 };
const PA_RR: Allocation = Allocation::PaRr { unit_cores: 1 };
const MAF: Mapping = Mapping::Maf { is_recomputed: true, is_of_pairs: false };
/// So often Random is run, each time with other draws.
const N_RANDOM: u64 = 5;
/// With little effort, so many tasks become one.
const QUICK: u64 = 40;

/// All ten of the first level. "Fairness" goes by no affinity.
pub const FIRST: [First; 10] = [
    ("Fairness", "", Allocation::Equal, Affinity::Rpa),
    ("PAF", "throughput", PAF, Affinity::Throughput),
    ("PAF", "EPA", PAF, Affinity::Epa),
    ("PAF", "RPA", PAF, Affinity::Rpa),
    ("AAF", "throughput", AAF, Affinity::Throughput),
    ("AAF", "EPA", AAF, Affinity::Epa),
    ("AAF", "RPA", AAF, Affinity::Rpa),
    ("PA-RR", "throughput", PA_RR, Affinity::Throughput),
    ("PA-RR", "EPA", PA_RR, Affinity::Epa),
    ("PA-RR", "RPA", PA_RR, Affinity::Rpa),
];

/// All of the second level.
pub const SECOND: [Second; 6] = [
    ("AllCore", Mapping::AllCore, CorunnerAffinity::Normalized),
    ("Random", Mapping::Random, CorunnerAffinity::Normalized),
    ("MAF", MAF, CorunnerAffinity::Normalized),
    ("MAF raw", MAF, CorunnerAffinity::Raw),
    ("CA-RR", Mapping::CaRr { unit_nodes: 1 }, CorunnerAffinity::Normalized),
    ("CA-RR raw", Mapping::CaRr { unit_nodes: 1 }, CorunnerAffinity::Raw),
];

/// One run, or the mean of those of Random.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scenario's place.
    pub scenario: usize,
    /// First level and its affinity.
    pub first: (&'static str, &'static str),
    /// Second level.
    pub second: &'static str,
    /// Section 6.1.
    pub fairness: f64,
    /// Seconds.
    pub makespan: f64,
    /// The makespan as a part of that of Fairness with AllCore: the smaller, the more efficient.
    pub efficiency: f64,
    /// Fairness and makespan of each draw; one where nothing is drawn.
    draws: Vec<(f64, f64)>,
}

impl Run {
    /// How many draws it is the mean of.
    pub fn n_draws(&self) -> usize {
        self.draws.len()
    }

    /// One of its draws; where there is one only, that.
    pub fn drawn(&self, n: usize) -> Run {
        let (fairness, makespan) = self.draws[n.min(self.draws.len() - 1)];
        let efficiency = self.efficiency / self.makespan * makespan;
        Run { fairness, makespan, efficiency, draws: vec![(fairness, makespan)], ..*self }
    }
}

/// The 23 scenarios, smaller with little effort.
pub fn scenarios(effort: Effort) -> Vec<Scenario> {
    let mut all = Scenario::all();
    if effort == Effort::Quick {
        all.iter_mut().flat_map(|scenario| &mut scenario.n_tasks).for_each(|n| *n = (*n / QUICK).max(1));
    }
    all
}

/// All of them: 100 runs a scenario.
pub fn all(
    scenarios: &[Scenario],
    interference: &Interference,
    seed: u64,
    progress: &dyn Progress,
) -> Vec<Run> {
    let mut inputs = Vec::new();
    for scenario in 0..scenarios.len() {
        for first in FIRST {
            for second in SECOND {
                let n = if second.0 == "Random" { N_RANDOM } else { 1 };
                inputs.extend((0..n).map(|draw| (scenario, first, second, seed + draw)));
            }
        }
    }
    let outcomes = grid::map(&inputs, progress, |(scenario, first, second, seed)| {
        run(&scenarios[*scenario], sharing(*first, *second, *seed), interference)
    });
    let mut runs: Vec<Run> = Vec::new();
    for ((scenario, first, second, _), Outcome { fairness, makespan, .. }) in inputs.into_iter().zip(outcomes)
    {
        let (first, second, draw) = ((first.0, first.1), second.0, (fairness, makespan));
        match runs.last_mut() {
            Some(last) if (last.scenario, last.first, last.second) == (scenario, first, second) => {
                last.draws.push(draw);
            }
            _ => {
                let draws = vec![draw];
                runs.push(Run { scenario, first, second, fairness, makespan, efficiency: 0.0, draws });
            }
        }
    }
    for run in &mut runs {
        run.fairness = Draws::of(run.draws.iter().map(|draw| draw.0)).mean;
        run.makespan = Draws::of(run.draws.iter().map(|draw| draw.1)).mean;
    }
    let baselines: Vec<f64> = (0..scenarios.len())
        .filter_map(|scenario| of(&runs, scenario, ("Fairness", ""), "AllCore").map(|run| run.makespan))
        .collect();
    runs.iter_mut().for_each(|run| run.efficiency = run.makespan / baselines[run.scenario]);
    runs
}

/// The settings of one pair.
pub fn sharing(first: First, second: Second, seed: u64) -> Sharing {
    Sharing { allocation: first.2, affinity: first.3, mapping: second.1, corunner: second.2, seed }
}

/// The run of that pair.
pub fn of<'a>(runs: &'a [Run], scenario: usize, first: (&str, &str), second: &str) -> Option<&'a Run> {
    runs.iter().find(|run| run.scenario == scenario && run.first == first && run.second == second)
}
