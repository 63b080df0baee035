//! Fan-Out: the policies that leave everything on the root's node.

use scheduler::policy::stealing::Stealing;

use super::{FLDS, MDL, MLB, RLDS, SETTING, drawn, machine, name, number, run_all, seeds, workload};
use crate::{
    matrix::{
        machine::{Outcome, Setting},
        published::N_CORES_MEASURED,
        workload::{Shape, Workload},
    },
    report::{
        Claim, Draws, Effort, Figure, Listing, Part, Progress, Shape as Drawing, Verdict, verdict::FACTOR,
    },
};

const POLICIES: [Stealing; 5] = [MLB, MDL, RLDS, FLDS, Stealing::Lend];

/// The runs of a policy, one for each seed.
struct Runs {
    policy: Stealing,
    outcomes: Vec<Outcome>,
}

impl Runs {
    fn draws(&self, value: impl Fn(&Outcome) -> f64) -> Draws {
        Draws::of(self.outcomes.iter().map(value))
    }

    fn seconds(&self) -> Draws {
        self.draws(|outcome| outcome.makespan_s)
    }

    fn extremes(&self) -> (f64, f64) {
        let seconds = self.outcomes.iter().map(|outcome| outcome.makespan_s);
        seconds.fold((f64::INFINITY, 0.0), |(low, high), s| (low.min(s), high.max(s)))
    }

    /// Returns the tasks of the busiest node, divided by the mean.
    fn imbalance(&self) -> Draws {
        self.draws(|outcome| outcome.most_to_mean)
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
        "Fan-Out on {n_cores} cores with {} tasks, {n_seeds} draws. {SETTING} Under MDL every task goes to its parent's \
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
    let unbalanced = Claim::new(
        "Fan-Out is unbalanced under MDL and RLDS (the busiest node in ratio to the mean)",
        "yes",
        format!(
            "MDL {}, RLDS {}; MLB {}",
            mdl.imbalance().shown(0),
            rlds.imbalance().shown(1),
            mlb.imbalance().shown(2),
        ),
        Verdict::of_sentence(
            mdl.imbalance().mean > FACTOR && rlds.imbalance().mean > FACTOR,
            "not more than twice the mean",
        ),
    );
    let of_both = || rlds.outcomes.iter().zip(&flds.outcomes);
    let n_shorter = of_both().filter(|(rlds, flds)| flds.makespan_s < rlds.makespan_s).count();
    let n = flds.outcomes.len();
    let [mdl_s, rlds_s, flds_s] = [mdl, rlds, flds].map(|runs| runs.seconds().shown(0));
    let mitigated = Claim::new(
        "FLDS mitigates it (shorter runs than MDL and RLDS on the mean, s)",
        "yes",
        format!("MDL {mdl_s}, RLDS {rlds_s}, FLDS {flds_s}; shorter than RLDS in {n_shorter} of {n} draws"),
        Verdict::of_sentence(
            flds.seconds().mean < mdl.seconds().mean.min(rlds.seconds().mean),
            "not shorter on the mean",
        ),
    );
    vec![unbalanced, mitigated]
}

fn listing(runs: &[Runs]) -> Listing {
    let columns = [
        "policy",
        "run (s)",
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
            drawn(runs.seconds(), 1),
            number(low, 1),
            number(high, 1),
            drawn(runs.draws(|outcome| 100.0 * outcome.efficiency), 1),
            drawn(runs.imbalance(), 2),
            drawn(runs.draws(|outcome| outcome.traffic.bytes_fetched as f64 / 1e9), 0),
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
        title: "Paper 004, Fan-Out: tasks of the busiest node in ratio to the mean".into(),
        x_label: "policy".into(),
        y_label: "tasks of the busiest node / mean".into(),
        shape: Drawing::Bars {
            categories: runs.iter().map(|runs| name(runs.policy)).collect(),
            series: vec![("busiest / mean".into(), runs.iter().map(|runs| runs.imbalance().mean).collect())],
        },
    }
}
