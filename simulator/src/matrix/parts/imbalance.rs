//! Fan-Out: which policies leave everything on the root's node.

use scheduler::policy::stealing::Stealing;

use super::{FLDS, MDL, MLB, RLDS, SETTING, machine, mean, name, number, run_all, seeds, sentence, workload};
use crate::{
    matrix::{
        machine::{Outcome, Setting},
        published::N_CORES_MEASURED,
        workload::{Shape, Workload},
    },
    report::{Claim, Effort, Figure, Listing, Part, Progress, Shape as Drawing},
};

const POLICIES: [Stealing; 5] = [MLB, MDL, RLDS, FLDS, Stealing::Lend];

/// The runs of a policy, one a seed.
struct Runs {
    policy: Stealing,
    outcomes: Vec<Outcome>,
}

impl Runs {
    fn seconds(&self) -> impl Iterator<Item = f64> {
        self.outcomes.iter().map(|outcome| outcome.makespan_s)
    }

    fn mean_s(&self) -> f64 {
        mean(self.seconds())
    }

    fn spread(&self) -> String {
        let (low, high) = self.extremes();
        format!("{:.0} s ({low:.0} to {high:.0})", self.mean_s())
    }

    fn extremes(&self) -> (f64, f64) {
        self.seconds().fold((f64::INFINITY, 0.0), |(low, high), s| (low.min(s), high.max(s)))
    }

    /// Tasks of the busiest node in ratio to the mean.
    fn imbalance(&self) -> f64 {
        mean(self.outcomes.iter().map(|outcome| outcome.most_to_mean))
    }
}

pub(in crate::matrix) fn part(effort: Effort, seed: u64, progress: &dyn Progress) -> Part {
    let (n_cores, n_seeds) = if effort == Effort::Full { (N_CORES_MEASURED, 10) } else { (20, 3) };
    let seeds = seeds(n_seeds, seed);
    let grid: Vec<(Workload, Setting)> = POLICIES
        .iter()
        .flat_map(|policy| {
            seeds.iter().map(|seed| (workload(Shape::FanOut, n_cores, *seed), machine(n_cores, *policy)))
        })
        .collect();
    let outcomes = run_all(&grid, progress);
    let of_policy =
        |(policy, outcomes): (&Stealing, &[Outcome])| Runs { policy: *policy, outcomes: outcomes.to_vec() };
    let runs: Vec<Runs> = POLICIES.iter().zip(outcomes.chunks(seeds.len())).map(of_policy).collect();
    let text = format!(
        "Fan-Out on {n_cores} cores with {} tasks, mean of {n_seeds} seeds. {SETTING} Under MDL every task goes to its parent's \
         node, which is the root's. Under RLDS tasks leave it only with light outputs, and how many do so near \
         the root is a matter of a few draws: runs took from {:.0} to {:.0} s. FLDS with tt = 10 s keeps up to \
         10 s of work on a node in a run whose work is 50 s a core, so that here even MLB, which fetches nearly \
         everything, can be about as quick.",
        workload(Shape::FanOut, n_cores, seed).n_tasks,
        runs[2].extremes().0,
        runs[2].extremes().1,
    );
    Part {
        title: "Fan-Out's imbalance".into(),
        text,
        claims: claims(&runs),
        tables: vec![listing(&runs)],
        figures: vec![figure(&runs)],
    }
}

fn claims(runs: &[Runs]) -> Vec<Claim> {
    let [mlb, mdl, rlds, flds, _] = [0, 1, 2, 3, 4].map(|at| &runs[at]);
    let unbalanced = Claim {
        what: "Fan-Out is unbalanced under MDL and RLDS".into(),
        published: "yes".into(),
        ours: format!(
            "the busiest node ran {:.0} times (MDL) and {:.1} times (RLDS) the mean; MLB {:.2} times",
            mdl.imbalance(),
            rlds.imbalance(),
            mlb.imbalance(),
        ),
        verdict: sentence(mdl.imbalance() > 2.0 && rlds.imbalance() > 2.0, "Not here."),
    };
    let is_mitigated = rlds.seconds().zip(flds.seconds()).all(|(rlds, flds)| flds < rlds);
    let mitigated = Claim {
        what: "FLDS mitigates it".into(),
        published: "yes".into(),
        ours: format!("MDL {}, RLDS {}, FLDS {}", mdl.spread(), rlds.spread(), flds.spread()),
        verdict: sentence(is_mitigated, "Not with every seed."),
    };
    vec![unbalanced, mitigated]
}

fn listing(runs: &[Runs]) -> Listing {
    let columns = [
        "policy",
        "run, mean (s)",
        "shortest (s)",
        "longest (s)",
        "efficiency (%)",
        "most tasks of a node / mean",
        "fetched (GB)",
    ];
    let row = |runs: &Runs| {
        let (low, high) = runs.extremes();
        vec![
            name(runs.policy).into(),
            number(runs.mean_s(), 1),
            number(low, 1),
            number(high, 1),
            number(100.0 * mean(runs.outcomes.iter().map(|outcome| outcome.efficiency)), 1),
            number(runs.imbalance(), 2),
            number(mean(runs.outcomes.iter().map(|outcome| outcome.traffic.bytes_fetched as f64 / 1e9)), 0),
        ]
    };
    Listing {
        name: "fan-out".into(),
        title: "Fan-Out by policy".into(),
        columns: columns.map(String::from).into(),
        rows: runs.iter().map(row).collect(),
    }
}

fn figure(runs: &[Runs]) -> Figure {
    Figure {
        name: "fan-out-balance".into(),
        title: "Fan-Out: tasks of the busiest node in ratio to the mean".into(),
        x_label: "policy".into(),
        y_label: "ratio".into(),
        shape: Drawing::Bars {
            categories: runs.iter().map(|runs| name(runs.policy)).collect(),
            series: vec![("busiest / mean".into(), runs.iter().map(Runs::imbalance).collect())],
        },
    }
}
