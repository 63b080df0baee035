//! Section 6: what is said of the policies, held against all runs.

use crate::report::{Cell, Claim, Figure, Listing, Part, Shape, Verdict};

use super::{
    runs::{Run, of},
    scenario::Scenario,
};

const AFFINITIES: [&str; 3] = ["throughput", "EPA", "RPA"];
/// The first level with the best affinity of each.
const BEST: [(&str, &str); 4] = [("Fairness", ""), ("PAF", "RPA"), ("AAF", "RPA"), ("PA-RR", "RPA")];
/// The second level, raw affinities left out.
const SECONDS: [&str; 4] = ["AllCore", "Random", "MAF", "CA-RR"];

type Value = fn(&Run) -> f64;
const FAIRNESS: Value = |run| run.fairness;
const EFFICIENCY: Value = |run| run.efficiency;

/// The parts of section 6 that every run is needed for.
pub fn parts(scenarios: &[Scenario], runs: &[Run]) -> Vec<Part> {
    vec![by_affinity(runs), by_first_level(scenarios, runs), by_second_level(scenarios, runs), effects(runs)]
}

/// A percentage against the published one.
pub fn percentage(what: &str, published: f64, ours: f64, tolerance: f64) -> Claim {
    let verdict = match (published - ours).abs() {
        off if off <= tolerance => {
            let unit = if tolerance == 1.0 { "point" } else { "points" };
            Verdict::Within { tolerance: format!("{tolerance} {unit}") }
        }
        _ if published.signum() == ours.signum() => Verdict::SameOrder,
        _ => Verdict::Not { why: "the sign is another one here".into() },
    };
    Claim { what: what.into(), published: format!("{published:+} %"), ours: format!("{ours:+.1} %"), verdict }
}

/// A statement that holds or does not.
pub fn statement(what: &str, ours: String, holds: bool) -> Claim {
    let why = "the numbers here say otherwise".into();
    let verdict = if holds { Verdict::SameOrder } else { Verdict::Not { why } };
    Claim { what: what.into(), published: "yes".into(), ours, verdict }
}

fn mean(runs: &[Run], value: Value, is_meant: impl Fn(&Run) -> bool) -> f64 {
    let meant: Vec<f64> = runs.iter().filter(|run| is_meant(run)).map(value).collect();
    meant.iter().sum::<f64>() / meant.len() as f64
}

/// RPA against another affinity, all else equal: gains in percent of each pair.
fn gains(runs: &[Run], other: &str, value: Value) -> Vec<f64> {
    let of_rpa = runs.iter().filter(|run| run.first.1 == "RPA");
    let pairs =
        of_rpa.filter_map(|run| Some((run, of(runs, run.scenario, (run.first.0, other), run.second)?)));
    pairs.map(|(rpa, other)| (value(rpa) / value(other) - 1.0) * 100.0).collect()
}

fn by_affinity(runs: &[Run]) -> Part {
    let mut claims = Vec::new();
    for (other, fairness, efficiency) in [("throughput", 10.0, 8.0), ("EPA", 3.0, 2.0)] {
        let ratio = |value: Value| {
            let of_affinity = |name: &str| mean(runs, value, |run| run.first.1 == name);
            of_affinity("RPA") / of_affinity(other)
        };
        claims.push(percentage(
            &format!("fairness with RPA against {other}, on average (section 6.2)"),
            fairness,
            (ratio(FAIRNESS) - 1.0) * 100.0,
            1.0,
        ));
        claims.push(percentage(
            &format!("efficiency with RPA against {other}, on average (section 6.2)"),
            efficiency,
            (1.0 - ratio(EFFICIENCY)) * 100.0,
            1.5,
        ));
    }
    let fairer = gains(runs, "EPA", FAIRNESS);
    let share = |n: usize, of: usize| n as f64 / of as f64 * 100.0;
    let n_fairer = fairer.iter().filter(|gain| **gain > 1e-9).count();
    claims.push(percentage(
        "runs in which RPA is fairer than EPA (section 6.2)",
        59.7,
        share(n_fairer, fairer.len()),
        3.0,
    ));
    let most = fairer.iter().copied().fold(0.0, f64::max);
    claims.push(percentage("… by at most", 24.3, most, 2.0));
    let quicker: Vec<f64> = gains(runs, "EPA", EFFICIENCY).into_iter().map(|gain| -gain).collect();
    let n_quicker = quicker.iter().filter(|gain| **gain > 1e-9).count();
    claims.push(percentage(
        "runs in which RPA is more efficient than EPA (section 6.2)",
        64.3,
        share(n_quicker, quicker.len()),
        3.0,
    ));
    let most = quicker.iter().copied().fold(0.0, f64::max);
    claims.push(percentage("… by at most", 10.2, most, 2.0));
    let bars = |name: &str, title: &str, y_label: &str, value: Value| Figure {
        name: name.into(),
        title: title.into(),
        x_label: "first level".into(),
        y_label: y_label.into(),
        shape: Shape::Bars {
            categories: ["PAF", "AAF", "PA-RR"].map(String::from).to_vec(),
            series: AFFINITIES
                .iter()
                .map(|affinity| {
                    let of_policy = |policy| mean(runs, value, |run| run.first == (policy, *affinity));
                    ((*affinity).to_owned(), ["PAF", "AAF", "PA-RR"].map(of_policy).to_vec())
                })
                .collect(),
        },
    };
    Part {
        title: "Section 6.2: affinity metrics".into(),
        text: "Means over all scenarios and second levels.".into(),
        claims,
        tables: Vec::new(),
        figures: vec![
            bars("affinity-fairness", "Fairness by affinity metric", "fairness", FAIRNESS),
            bars(
                "affinity-efficiency",
                "Makespan by affinity metric",
                "makespan / that of Fairness + AllCore",
                EFFICIENCY,
            ),
        ],
    }
}

fn by_first_level(scenarios: &[Scenario], runs: &[Run]) -> Part {
    let with_maf = |first: (&str, &str), value: Value| {
        mean(runs, value, |run| run.first == first && run.second == "MAF")
    };
    let fairness = BEST.map(|first| with_maf(first, FAIRNESS));
    let efficiency = BEST.map(|first| with_maf(first, EFFICIENCY));
    let words = |values: [f64; 4]| {
        BEST.iter()
            .zip(values)
            .map(|((name, _), value)| format!("{name} {value:.3}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let is_best = |scenario: usize| {
        let of_policy = |first| of(runs, scenario, first, "MAF").map_or(0.0, FAIRNESS);
        BEST.iter().all(|first| of_policy(BEST[3]) >= of_policy(*first))
    };
    let n_best = (0..scenarios.len()).filter(|scenario| is_best(*scenario)).count();
    let n = scenarios.len();
    let least = |values: [f64; 4], which: usize| values.iter().all(|value| *value >= values[which]);
    let claims = vec![
        statement(
            "PA-RR is the fairest (section 6.3)",
            format!("on average ({}); in {n_best} of {n} scenarios", words(fairness)),
            fairness.iter().all(|value| fairness[3] >= *value),
        ),
        statement(
            "Fairness has the lowest efficiency (section 6.3)",
            format!("makespan of the baseline's: {}", words(efficiency)),
            efficiency.iter().all(|value| efficiency[0] >= *value),
        ),
        statement(
            "PAF is the least fair, with an efficiency like the others' (section 6.3)",
            words(fairness),
            {
                let others = [efficiency[2], efficiency[3]];
                least(fairness, 1) && others.iter().all(|other| (efficiency[1] / other - 1.0).abs() < 0.05)
            },
        ),
    ];
    let per_scenario = |value: Value, n_digits: usize| {
        let row = |(place, scenario): (usize, &Scenario)| {
            let cells = BEST.iter().map(|first| {
                of(runs, place, *first, "MAF").map_or(Cell::Empty, |run| Cell::Number(value(run), n_digits))
            });
            std::iter::once(Cell::from(scenario.name.as_str())).chain(cells).collect()
        };
        scenarios.iter().enumerate().map(row).collect::<Vec<Vec<Cell>>>()
    };
    let columns: Vec<String> =
        std::iter::once("scenario").chain(BEST.iter().map(|(name, _)| *name)).map(String::from).collect();
    let table = |name: &str, title: &str, rows| Listing {
        name: name.into(),
        title: title.into(),
        columns: columns.clone(),
        rows,
    };
    Part {
        title: "Section 6.3: the first level".into(),
        text: "With RPA and MAF. k is 50 %, D_unit is 1.".into(),
        claims,
        tables: vec![
            table("first-level-fairness", "Fairness in each scenario", per_scenario(FAIRNESS, 3)),
            table(
                "first-level-makespan",
                "Makespan in each scenario, s",
                per_scenario(|run| run.makespan, 0),
            ),
        ],
        figures: vec![Figure {
            name: "first-level".into(),
            title: "First-level policies with RPA and MAF, mean of 23 scenarios".into(),
            x_label: "first level".into(),
            y_label: "fairness; makespan / baseline's".into(),
            shape: Shape::Bars {
                categories: BEST.map(|(name, _)| name.to_owned()).to_vec(),
                series: vec![
                    ("fairness".into(), fairness.to_vec()),
                    ("makespan".into(), efficiency.to_vec()),
                ],
            },
        }],
    }
}

fn by_second_level(scenarios: &[Scenario], runs: &[Run]) -> Part {
    let rpa = |second: &str, value: Value| {
        mean(runs, value, |run| BEST.contains(&run.first) && run.second == second)
    };
    let fairness = SECONDS.map(|second| rpa(second, FAIRNESS));
    let efficiency = SECONDS.map(|second| rpa(second, EFFICIENCY));
    let words = |values: [f64; 4]| {
        SECONDS
            .iter()
            .zip(values)
            .map(|(name, value)| format!("{name} {value:.4}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let both = format!("fairness: {}; makespan: {}", words(fairness), words(efficiency));
    // Within a thousandth two means count as equal.
    let is_best = |values: [f64; 4], which: usize, sign: f64| {
        values.iter().all(|value| sign * values[which] >= sign * value - 0.001)
    };
    let against_random = |value: Value, sign: f64| -> Vec<f64> {
        let gain = |scenario: usize| {
            let of_second = |second| of(runs, scenario, ("PA-RR", "RPA"), second).map(value);
            Some(sign * (of_second("MAF")? / of_second("Random")? - 1.0) * 100.0)
        };
        (0..scenarios.len()).filter_map(gain).collect()
    };
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (fairer, quicker) = (against_random(FAIRNESS, 1.0), against_random(EFFICIENCY, -1.0));
    let raw = |run: &Run| {
        of(runs, run.scenario, run.first, "MAF raw")
            .map(|raw| (raw.makespan / run.makespan - 1.0).abs() * 100.0)
    };
    let apart = runs.iter().filter(|run| run.second == "MAF").filter_map(raw).fold(0.0, f64::max);
    let claims = vec![
        statement("AllCore is the worst, MAF the best (section 6.4)", both, {
            is_best(fairness, 2, 1.0)
                && is_best(efficiency, 2, -1.0)
                && is_best(fairness, 0, -1.0)
                && is_best(efficiency, 0, 1.0)
        }),
        statement(
            "CA-RR is as fair as Random (section 6.4)",
            format!("{:.4} and {:.4}", fairness[3], fairness[1]),
            (fairness[3] - fairness[1]).abs() < 0.01,
        ),
        statement(
            "… and as efficient",
            format!("makespan {:.3} and {:.3}", efficiency[3], efficiency[1]),
            (efficiency[3] - efficiency[1]).abs() < 0.01,
        ),
        percentage(
            "fairness of MAF against Random with PA-RR, on average (section 6.4)",
            2.0,
            average(&fairer),
            0.5,
        ),
        percentage("… at most", 5.0, most(&fairer), 1.0),
        percentage(
            "efficiency of MAF against Random with PA-RR, on average (section 6.4)",
            3.7,
            average(&quicker),
            1.0,
        ),
        percentage("… at most", 9.0, most(&quicker), 2.5),
        statement(
            "MAF by raw and by normalized affinity are similar, up to 8 % apart on one platform (section 6.4)",
            format!("makespans at most {apart:.1} % apart"),
            apart <= 8.0,
        ),
    ];
    Part {
        title: "Section 6.4: the second level".into(),
        text: "Means over all scenarios and the first levels Fairness, PAF, AAF, PA-RR with RPA. Random: the mean of five runs.".into(),
        claims,
        tables: Vec::new(),
        figures: vec![Figure {
            name: "second-level".into(),
            title: "Second-level policies, mean of 23 scenarios".into(),
            x_label: "second level".into(),
            y_label: "fairness; makespan / baseline's".into(),
            shape: Shape::Bars {
                categories: SECONDS.map(String::from).to_vec(),
                series: vec![("fairness".into(), fairness.to_vec()), ("makespan".into(), efficiency.to_vec())],
            },
        }],
    }
}

/// How much the choice at one level may change, the other being given.
fn effects(runs: &[Run]) -> Part {
    let n_scenarios = runs.iter().map(|run| run.scenario + 1).max().unwrap_or(0);
    let spread = |meant: Vec<&Run>, value: Value| {
        let values = || meant.iter().map(|run| value(run));
        (1.0 - values().fold(f64::INFINITY, f64::min) / values().fold(0.0, f64::max)) * 100.0
    };
    let of_first = |value: Value| -> Vec<f64> {
        let cases = (0..n_scenarios).flat_map(|scenario| SECONDS.map(|second| (scenario, second)));
        let meant = |(scenario, second)| {
            let is_meant =
                |run: &&Run| run.scenario == scenario && run.second == second && BEST.contains(&run.first);
            spread(runs.iter().filter(is_meant).collect(), value)
        };
        cases.map(meant).collect()
    };
    let of_second = |value: Value| -> Vec<f64> {
        let cases = (0..n_scenarios).flat_map(|scenario| BEST.map(|first| (scenario, first)));
        let meant = |(scenario, first)| {
            let is_meant =
                |run: &&Run| run.scenario == scenario && run.first == first && SECONDS.contains(&run.second);
            spread(runs.iter().filter(is_meant).collect(), value)
        };
        cases.map(meant).collect()
    };
    let most = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max);
    let (first, second) = (most(of_first(EFFICIENCY)), most(of_second(EFFICIENCY)));
    Part {
        title: "Section 6.5: which level matters".into(),
        text: "How much less the worst choice at one level gives than the best, the other level being given; the \
               largest of all scenarios."
            .into(),
        claims: vec![
            percentage("fairness by the choice at the first level, at most", 38.0, most(of_first(FAIRNESS)), 5.0),
            percentage("fairness by the choice at the second level, at most", 8.0, most(of_second(FAIRNESS)), 2.0),
            statement(
                "efficiency by either level is about the same in the worst case",
                format!("first level {first:.1} %, second {second:.1} %"),
                (first - second).abs() < 0.5 * first.max(second),
            ),
        ],
        ..Part::default()
    }
}
