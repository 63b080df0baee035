//! Section 6.6: other units, simpler affinities, and users that arrive one after the other.

use scheduler::{
    policy::{allocation::Allocation, mapping::Mapping},
    rng::Rng,
};

use crate::{
    draw, grid,
    report::{Cell, Claim, Draws, Effort, Figure, Listing, Part, Progress, Shape, Verdict},
};

use super::{
    Interference,
    claims::{likeness, one, percentage, statement},
    runs::{FIRST, SECOND, sharing},
    scenario::Scenario,
    simulation::{Outcome, Sharing, run},
};

/// Cores that PA-RR takes at a time.
const D_UNITS: [u64; 6] = [1, 50, 100, 200, 300, 600];
/// Mean seconds between users.
const GAPS: [f64; 4] = [500.0, 1000.0, 2000.0, 4000.0];
/// Number of draws for each gap.
const N_DRAWS: u64 = 100;
/// Policies of the first level that are compared, by their indices.
const COMPARED: [usize; 4] = [0, 3, 6, 9];

/// Fairness and makespan, means over the scenarios.
type Means = (f64, f64);

/// Returns the two parts.
pub fn parts(
    effort: Effort,
    scenarios: &[Scenario],
    interference: &Interference,
    seed: u64,
    progress: &dyn Progress,
) -> Vec<Part> {
    let run_all = |settings: &[Sharing]| -> Vec<Means> {
        let inputs: Vec<(&Scenario, Sharing)> = settings
            .iter()
            .flat_map(|sharing| scenarios.iter().map(|scenario| (scenario, *sharing)))
            .collect();
        let outcomes =
            grid::map(&inputs, progress, |(scenario, sharing)| run(scenario, *sharing, interference));
        outcomes.chunks(scenarios.len()).map(means).collect()
    };
    let standard = sharing(FIRST[9], SECOND[2], seed);
    vec![units(standard, &run_all), arrivals(effort, interference, seed, progress)]
}

fn means(outcomes: &[Outcome]) -> Means {
    let n = outcomes.len() as f64;
    let sum = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).sum::<f64>() / n;
    (sum(|outcome| outcome.fairness), sum(|outcome| outcome.makespan))
}

fn units(standard: Sharing, run_all: &dyn Fn(&[Sharing]) -> Vec<Means>) -> Part {
    let with_mapping = |mapping| Sharing { mapping, ..standard };
    let mut settings: Vec<Sharing> = D_UNITS
        .map(|unit_cores| Sharing { allocation: Allocation::PaRr { unit_cores }, ..standard })
        .to_vec();
    settings.extend([
        with_mapping(Mapping::CaRr { unit_nodes: 1 }),
        with_mapping(Mapping::CaRr { unit_nodes: 20 }),
        with_mapping(Mapping::Maf { is_recomputed: false, is_of_pairs: false }),
        with_mapping(Mapping::Maf { is_recomputed: true, is_of_pairs: true }),
    ]);
    let found = run_all(&settings);
    let (by_d, rest) = found.split_at(D_UNITS.len());
    let percent = |one: f64, other: f64| (one / other - 1.0) * 100.0;
    let at_200 = by_d[3];
    let words = |one: Means, other: Means| {
        format!("fairness {:+.2} %, makespan {:+.2} %", percent(one.0, other.0), percent(one.1, other.1))
    };
    let alike = |what: &str, found: Means, before: Means| {
        let pairs = [("fairness", before.0, found.0), ("makespan", before.1, found.1)];
        likeness(what, words(found, before), &pairs)
    };
    let points = D_UNITS.iter().zip(by_d).map(|(unit, (fairness, _))| (*unit as f64, *fairness)).collect();
    Part {
        title: "Section 6.6: units and simpler affinities".into(),
        text: "PA-RR with RPA and MAF, and CA-RR for P_unit; means over the scenarios, where nothing is drawn by lot.".into(),
        claims: vec![
            percentage(
                "fairness with D_unit 200 against 1 (section 6.6)",
                -3.0,
                one(percent(at_200.0, by_d[0].0)),
            ),
            likeness(
                "efficiency with D_unit 200 is the same (section 6.6)",
                words(at_200, by_d[0]),
                &[("makespan", by_d[0].1, at_200.1)],
            ),
            alike("P_unit 20 makes no difference (section 6.6)", rest[1], rest[0]),
            alike(
                "co-runner affinities worked out once make hardly a difference (section 6.6)",
                rest[2],
                by_d[0],
            ),
            alike("… nor those of pairs only", rest[3], by_d[0]),
        ],
        tables: Vec::new(),
        figures: vec![Figure {
            name: "d-unit".into(),
            title: "Paper 000, section 6.6: fairness by the unit of PA-RR".into(),
            x_label: "D_unit, cores".into(),
            y_label: "fairness".into(),
            shape: Shape::Lines {
                series: vec![("PA-RR, MAF".into(), points)],
                is_log_x: false,
                is_log_y: false,
            },
        }],
    }
}

/// Simulates users that arrive at random times, in any order.
fn arrivals(effort: Effort, interference: &Interference, seed: u64, progress: &dyn Progress) -> Part {
    let default = super::runs::scenarios(effort).swap_remove(0);
    let n_draws = if effort == Effort::Full { N_DRAWS } else { 2 };
    let mut inputs = Vec::new();
    for place in COMPARED {
        for gap in GAPS {
            inputs.extend((0..n_draws).map(|draw| (place, late(&default, gap, seed + draw))));
        }
        inputs.push((place, default.clone()));
    }
    let outcomes = grid::map(&inputs, progress, |(place, scenario)| {
        run(scenario, sharing(FIRST[*place], SECOND[2], seed), interference)
    });
    let per_policy: Vec<Vec<Draws>> = outcomes
        .chunks(GAPS.len() * n_draws as usize + 1)
        .map(|of_policy| {
            let fairness = |outcomes: &[Outcome]| Draws::of(outcomes.iter().map(|outcome| outcome.fairness));
            let (late, at_once) = of_policy.split_at(of_policy.len() - 1);
            let by_gap = late.chunks(n_draws as usize).map(fairness);
            by_gap.chain(std::iter::once(fairness(at_once))).collect()
        })
        .collect();
    let series = COMPARED.iter().zip(&per_policy).map(|(place, values)| {
        let points = GAPS.iter().copied().zip(values.iter().map(|value| value.mean));
        (FIRST[*place].0.to_owned(), points.collect())
    });
    Part {
        title: "Section 6.6: users that come one after the other".into(),
        text: format!(
            "The default workload with exponential gaps between users in any order, mean 500 to 4,000 s, {n_draws} draws \
             each; RPA and MAF. A user's time counts from the submission (ours: the paper does not define it)."
        ),
        claims: of_arrivals(&per_policy),
        tables: vec![by_gap(&per_policy)],
        figures: vec![Figure {
            name: "arrivals".into(),
            title: "Paper 000, section 6.6: fairness when users come one after the other".into(),
            x_label: "mean gap between users, s".into(),
            y_label: "fairness".into(),
            shape: Shape::Lines { series: series.collect(), is_log_x: false, is_log_y: false },
        }],
    }
}

/// Makes the claims from fairness by policy, by gap, and for all users at once at the end.
fn of_arrivals(per_policy: &[Vec<Draws>]) -> Vec<Claim> {
    let [_, paf, _, pa_rr] = [0, 1, 2, 3].map(|which| &per_policy[which]);
    let is_best =
        |gap: usize| per_policy.iter().all(|of_policy| of_policy[gap].mean <= pa_rr[gap].mean + 1e-9);
    let words = |values: &[Draws]| values.iter().map(|value| value.shown(3)).collect::<Vec<_>>().join(" / ");
    let (late, at_once) = paf.split_at(GAPS.len());
    let improves = Draws::of(late.iter().map(|value| value.mean)).mean > at_once[0].mean;
    let why = "the fairness of users that start at different times is not defined in the paper; by ours only the \
               gap to PA-RR closes";
    vec![
        statement(
            "the trend is the same: PA-RR is the fairest at every rate (section 6.6)",
            format!("PA-RR {}", words(&pa_rr[..GAPS.len()])),
            (0..GAPS.len()).all(is_best),
        ),
        Claim::new(
            "PAF's fairness improves (section 6.6)",
            "yes",
            format!("{} against {:.3} at once", words(late), at_once[0].mean),
            Verdict::of_sentence(improves, why),
        ),
    ]
}

fn by_gap(per_policy: &[Vec<Draws>]) -> Listing {
    let gaps = GAPS.iter().map(|gap| format!("mean gap {gap} s"));
    let row = |(place, values): (&usize, &Vec<Draws>)| {
        let cells = values.iter().map(|value| Cell::Mean(*value, 3));
        std::iter::once(Cell::from(FIRST[*place].0)).chain(cells).collect()
    };
    Listing {
        name: "arrivals".into(),
        title: "Fairness of the default workload by how users come".into(),
        columns: std::iter::once("first level".to_owned()).chain(gaps).chain(["at once".into()]).collect(),
        rows: COMPARED.iter().zip(per_policy).map(row).collect(),
    }
}

/// Returns the scenario with users that arrive at random times.
fn late(scenario: &Scenario, gap: f64, seed: u64) -> Scenario {
    let mut luck = Rng::of(seed, &[gap as u64]);
    let mut order: Vec<usize> = (0..scenario.applications.len()).collect();
    draw::shuffle(&mut order, &mut luck);
    let mut late = scenario.clone();
    let mut at = 0.0;
    for user in order {
        late.submitted_at[user] = at;
        at += gap * draw::exponential(&mut luck);
    }
    late
}

#[cfg(test)]
mod tests {
    use super::{Scenario, late};

    #[test]
    fn gaps_have_their_mean() {
        let all: Vec<f64> = (0..2000)
            .map(|seed| {
                late(&Scenario::published(), 1000.0, seed).submitted_at.into_iter().fold(0.0, f64::max)
            })
            .collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((mean - 4000.0).abs() < 150.0, "{mean}");
    }
}
