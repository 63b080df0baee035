//! Section 6: what is said of the policies, held against all runs.

mod affinity;
mod first_level;
mod second_level;

use crate::report::{Claim, Figure, Part, Shape, Verdict};

use super::{runs::Run, scenario::Scenario};

/// The first level with the best affinity of each.
const BEST: [(&str, &str); 4] = [("Fairness", ""), ("PAF", "RPA"), ("AAF", "RPA"), ("PA-RR", "RPA")];
/// The second level, raw affinities left out.
const SECONDS: [&str; 4] = ["AllCore", "Random", "MAF", "CA-RR"];

type Value = fn(&Run) -> f64;
const FAIRNESS: Value = |run| run.fairness;
const EFFICIENCY: Value = |run| run.efficiency;

/// The parts of section 6 that every run is needed for.
pub fn parts(scenarios: &[Scenario], runs: &[Run]) -> Vec<Part> {
    vec![
        affinity::part(runs),
        first_level::part(scenarios, runs),
        second_level::part(scenarios, runs),
        effects(runs),
    ]
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

/// Each name with its value, to so many digits.
fn words(names: [&str; 4], values: [f64; 4], n_digits: usize) -> String {
    let all = names.iter().zip(values).map(|(name, value)| format!("{name} {value:.n_digits$}"));
    all.collect::<Vec<_>>().join(", ")
}

/// Fairness and makespan of each, side by side.
fn both(name: &str, title: &str, x_label: &str, names: [&str; 4], values: [[f64; 4]; 2]) -> Figure {
    let [fairness, makespan] = values.map(|values| values.to_vec());
    Figure {
        name: name.into(),
        title: title.into(),
        x_label: x_label.into(),
        y_label: "fairness; makespan / baseline's".into(),
        shape: Shape::Bars {
            categories: names.map(String::from).to_vec(),
            series: vec![("fairness".into(), fairness), ("makespan".into(), makespan)],
        },
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
