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
/// Number of runs of Random, each with other random numbers.
const N_RANDOM: u64 = 5;
/// With little effort, this many tasks become one.
const QUICK: u64 = 40;

/// All ten choices for the first level. "Fairness" uses no affinity.
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

/// All choices for the second level.
pub const SECOND: [Second; 6] = [
    ("AllCore", Mapping::AllCore, CorunnerAffinity::Normalized),
    ("Random", Mapping::Random, CorunnerAffinity::Normalized),
    ("MAF", MAF, CorunnerAffinity::Normalized),
    ("MAF raw", MAF, CorunnerAffinity::Raw),
    ("CA-RR", Mapping::CaRr { unit_nodes: 1 }, CorunnerAffinity::Normalized),
    ("CA-RR raw", Mapping::CaRr { unit_nodes: 1 }, CorunnerAffinity::Raw),
];

/// One run, or the mean of the runs of Random.
#[derive(Clone, Debug)]
pub struct Run {
    /// Index of the scenario.
    pub scenario: usize,
    /// The first level and its affinity.
    pub first: (&'static str, &'static str),
    /// The second level.
    pub second: &'static str,
    /// The fairness by section 6.1.
    pub fairness: f64,
    /// The makespan in seconds.
    pub makespan: f64,
    /// The makespan divided by the makespan of Fairness with AllCore: the smaller, the more efficient.
    pub efficiency: f64,
    /// Fairness and makespan of each draw; a single one if nothing is random.
    draws: Vec<(f64, f64)>,
}

impl Run {
    /// Returns the number of draws behind the mean.
    pub fn n_draws(&self) -> usize {
        self.draws.len()
    }

    /// Returns the run of one draw; the only one if there is no other.
    pub fn drawn(&self, n: usize) -> Run {
        let (fairness, makespan) = self.draws[n.min(self.draws.len() - 1)];
        let efficiency = self.efficiency / self.makespan * makespan;
        Run { fairness, makespan, efficiency, draws: vec![(fairness, makespan)], ..*self }
    }
}

/// Returns the 23 scenarios, smaller with little effort.
pub fn scenarios(effort: Effort) -> Vec<Scenario> {
    let mut all = Scenario::all();
    if effort == Effort::Quick {
        all.iter_mut().flat_map(|scenario| &mut scenario.n_tasks).for_each(|n| *n = (*n / QUICK).max(1));
    }
    all
}

/// Runs all: 100 runs for each scenario.
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

/// Returns the settings of one pair of levels.
pub fn sharing(first: First, second: Second, seed: u64) -> Sharing {
    Sharing { allocation: first.2, affinity: first.3, mapping: second.1, corunner: second.2, seed }
}

/// Finds the run of a pair of levels in a scenario.
pub fn of<'a>(runs: &'a [Run], scenario: usize, first: (&str, &str), second: &str) -> Option<&'a Run> {
    runs.iter().find(|run| run.scenario == scenario && run.first == first && run.second == second)
}
