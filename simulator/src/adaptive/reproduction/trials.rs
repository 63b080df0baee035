//! Runs of policies on the same workloads, and their gains over core-based weights.

use scheduler::policy::{
    distribution::Distribution,
    scaling::{Scaling, Scope},
};

use crate::{
    adaptive::{
        fluid::{Laws, Outcome, run},
        workload::Cell,
        world::{Condition, Nature},
    },
    grid,
    report::{Draws, Progress},
};

/// Policies with a name for tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contestant {
    pub name: &'static str,
    pub laws: Laws,
}

/// The metrics that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Throughput,
    Wait,
    Utilisation,
}

impl Metric {
    pub(super) const ALL: [Metric; 3] = [Metric::Throughput, Metric::Wait, Metric::Utilisation];

    fn of(self, outcome: &Outcome) -> f64 {
        match self {
            Metric::Throughput => outcome.throughput,
            Metric::Wait => outcome.wait_s,
            Metric::Utilisation => outcome.utilisation,
        }
    }

    /// Returns whether the first gain is better.
    pub(super) fn is_better(self, one: f64, other: f64) -> bool {
        if self == Metric::Wait { one < other } else { one > other }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::Wait => "queueing time",
            Metric::Utilisation => "utilisation",
        }
    }
}

/// Indices in [`contestants`].
pub(super) const CORE: usize = 0;
pub(super) const STATIC: usize = 1;
pub(super) const LOAD: usize = 2;
pub(super) const PUBLISHED: usize = 3;
pub(super) const SOUND: usize = 4;
pub(super) const MEASURED: usize = 5;
/// Only combinations of policies follow these.
pub(super) const N_MAIN: usize = 6;

/// Returns all contestants; the first is the baseline for the others.
pub(super) fn contestants() -> Vec<Contestant> {
    use Distribution::{Adaptive, Adaptive2016, CoreBased, Profile};
    let of = |name, distribution, scaling| Contestant { name, laws: Laws::new(distribution, scaling) };
    let scoped = |name, scaling, scope| {
        let laws = Laws { scope, ..Laws::new(Adaptive, scaling) };
        Contestant { name, laws }
    };
    vec![
        of("core-based", CoreBased, Scaling::Fixed),
        of("static profiled weights", Profile, Scaling::Fixed),
        of("LOAD alone", Adaptive2016, Scaling::Fixed),
        of("published", Adaptive2016, Scaling::Adaptive2016),
        of("sound", Adaptive, Scaling::Adaptive),
        of("measured", Adaptive, Scaling::Measured),
        of("equal finish, fixed vCPUs", Adaptive, Scaling::Fixed),
        of("equal finish, Algorithm 4", Adaptive, Scaling::Adaptive2016),
        of("LOAD and ERROR, sound vCPUs", Adaptive2016, Scaling::Adaptive),
        of("LOAD and ERROR, measured vCPUs", Adaptive2016, Scaling::Measured),
        scoped("equal finish, sound vCPUs for each application", Scaling::Adaptive, Scope::Application),
        scoped("equal finish, measured vCPUs of the platform", Scaling::Measured, Scope::Platform),
    ]
}

/// All results: `outcomes[cell][seed][contestant]`, without their courses.
pub(super) struct Trials {
    pub cells: Vec<Cell>,
    outcomes: Vec<Vec<Vec<Outcome>>>,
}

impl Trials {
    /// Runs each contestant on each cell with each seed.
    pub(super) fn run(
        cells: &[Cell],
        seeds: &[u64],
        contestants: &[Contestant],
        nature: Nature,
        progress: &dyn Progress,
    ) -> Trials {
        let inputs: Vec<Cell> = cells.to_vec();
        let of_seed = |cell: &Cell, seed: u64| -> Vec<Outcome> {
            let jobs = cell.jobs(seed);
            let outcome = |one: &Contestant| Outcome { course: Vec::new(), ..run(&jobs, &one.laws, nature) };
            contestants.iter().map(outcome).collect()
        };
        let of_cell = |cell: &Cell| seeds.iter().map(|seed| of_seed(cell, *seed)).collect();
        Trials { cells: inputs, outcomes: grid::map(cells, progress, of_cell) }
    }

    /// Returns the gain over the first contestant, as a part, by cell and seed.
    fn gains(&self, cell: usize, contestant: usize, metric: Metric) -> impl Iterator<Item = f64> {
        let gain = move |run: &Vec<Outcome>| metric.of(&run[contestant]) / metric.of(&run[CORE]) - 1.0;
        self.outcomes[cell].iter().map(gain)
    }

    /// Returns the gain in a cell by seed, in percent.
    pub(super) fn cell_gains(&self, cell: usize, contestant: usize, metric: Metric) -> Draws {
        Draws::of(self.gains(cell, contestant, metric).map(|gain| gain * 100.0))
    }

    fn cell_gain(&self, cell: usize, contestant: usize, metric: Metric) -> f64 {
        self.cell_gains(cell, contestant, metric).mean
    }

    /// Returns the mean gain over these cells, in percent.
    pub(super) fn gain(&self, contestant: usize, metric: Metric, is_in: impl Fn(&Cell) -> bool) -> f64 {
        self.gain_by_seed(contestant, metric, is_in).mean
    }

    /// Returns the gain over these cells by seed, in percent.
    pub(super) fn gain_by_seed(
        &self,
        contestant: usize,
        metric: Metric,
        is_in: impl Fn(&Cell) -> bool,
    ) -> Draws {
        let cells = (0..self.cells.len()).filter(|cell| is_in(&self.cells[*cell]));
        let gains: Vec<Vec<f64>> = cells.map(|cell| self.gains(cell, contestant, metric).collect()).collect();
        let n_seeds = gains.first().map_or(0, Vec::len);
        Draws::of((0..n_seeds).map(|seed| 100.0 * mean(gains.iter().map(|of_cell| of_cell[seed]))))
    }

    /// Returns the number of cells in which the mean gain of one contestant is better than the other's.
    pub(super) fn n_cells_better(&self, one: usize, other: usize, metric: Metric) -> usize {
        let gain = |cell, contestant| self.cell_gain(cell, contestant, metric);
        (0..self.cells.len()).filter(|cell| metric.is_better(gain(*cell, one), gain(*cell, other))).count()
    }

    /// Returns the part of all runs in which one contestant is better than the other, in percent.
    pub(super) fn runs_better(&self, one: usize, other: usize, metric: Metric) -> f64 {
        let is_better = |run: &Vec<Outcome>| {
            f64::from(u8::from(metric.is_better(metric.of(&run[one]), metric.of(&run[other]))))
        };
        mean(self.outcomes.iter().flatten().map(is_better)) * 100.0
    }

    /// Returns the least and the largest value of a number over all runs of these cells.
    pub(super) fn range(
        &self,
        contestant: usize,
        is_in: impl Fn(&Cell) -> bool,
        number: impl Fn(&Outcome) -> f64,
    ) -> (f64, f64) {
        let cells = self.outcomes.iter().zip(&self.cells).filter(|(_, cell)| is_in(cell));
        let numbers = cells.flat_map(|(runs, _)| runs.iter().map(|run| number(&run[contestant])));
        numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), n| (low.min(n), high.max(n)))
    }

    /// Returns the sum of a number over all runs.
    pub(super) fn sum(&self, contestant: usize, number: impl Fn(&Outcome) -> f64) -> f64 {
        self.outcomes.iter().flatten().map(|run| number(&run[contestant])).sum()
    }
}

/// Accepts any cell.
pub(super) fn everywhere(_: &Cell) -> bool {
    true
}

/// Accepts cells of this condition.
pub(super) fn of(condition: Condition) -> impl Fn(&Cell) -> bool {
    move |cell| cell.condition == condition
}

pub(super) fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = numbers.fold((0.0, 0.0), |(sum, n), number| (sum + number, n + 1.0));
    sum / n
}
