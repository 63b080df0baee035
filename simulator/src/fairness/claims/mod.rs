//! Section 6: the paper's statements about the policies, checked against all runs.

mod affinity;
mod first_level;
mod second_level;

use crate::report::{Claim, Draws, Figure, Part, Shape, Verdict};

use super::{runs::Run, scenario::Scenario};

/// The policies of the first level, each with its best affinity.
const BEST: [(&str, &str); 4] = [("Fairness", ""), ("PAF", "RPA"), ("AAF", "RPA"), ("PA-RR", "RPA")];
/// The policies of the second level, without raw affinities.
const SECONDS: [&str; 4] = ["AllCore", "Random", "MAF", "CA-RR"];

type Value = fn(&Run) -> f64;
const FAIRNESS: Value = |run| run.fairness;
const EFFICIENCY: Value = |run| run.efficiency;

/// Returns the parts of section 6 that need all runs.
pub fn parts(scenarios: &[Scenario], runs: &[Run]) -> Vec<Part> {
    vec![
        affinity::part(runs),
        first_level::part(scenarios, runs),
        second_level::part(scenarios, runs),
        effects(runs),
    ]
}

/// Compares a change in percent with the published one.
pub fn percentage(what: &str, published: f64, ours: Draws) -> Claim {
    let here = match ours.n {
        0 | 1 => format!("{:+.1} %", ours.mean),
        _ => format!("{:+.1} ± {:.1} %", ours.mean, ours.sd),
    };
    let n_digits = published.to_string().split_once('.').map_or(0, |(_, digits)| digits.len());
    let verdict = Verdict::of_change(published, ours.mean, n_digits);
    Claim::new(what, format!("{published:+} %"), here, verdict)
}

/// Wraps a number that does not depend on random numbers.
pub fn one(value: f64) -> Draws {
    Draws::of([value])
}

/// Claims a statement that holds or does not.
pub fn statement(what: &str, ours: String, holds: bool) -> Claim {
    Claim::new(what, "yes", ours, Verdict::of_sentence(holds, "the numbers here say otherwise"))
}

/// Claims that our numbers are alike, each pair with its name.
pub fn likeness(what: &str, ours: String, pairs: &[(&str, f64, f64)]) -> Claim {
    let verdicts: Vec<(&str, Verdict)> =
        pairs.iter().map(|(of, one, other)| (*of, Verdict::of_likeness(*one, *other))).collect();
    let verdict = match &verdicts[..] {
        [(_, verdict)] => verdict.clone(),
        _ => Verdict::of_many(&verdicts),
    };
    Claim::new(what, "yes", ours, verdict)
}

/// Returns the mean over runs, for each draw.
fn mean(runs: &[Run], value: Value, is_meant: impl Fn(&Run) -> bool) -> Draws {
    let meant: Vec<&Run> = runs.iter().filter(|run| is_meant(run)).collect();
    let n_draws = meant.iter().map(|run| run.n_draws()).max().unwrap_or(0);
    let in_draw = |n: usize| Draws::of(meant.iter().map(|run| value(&run.drawn(n)))).mean;
    Draws::of((0..n_draws).map(in_draw))
}

/// Formats each name with its value, to `n_digits` digits.
fn words(names: [&str; 4], values: [Draws; 4], n_digits: usize) -> String {
    let all = names.iter().zip(values).map(|(name, value)| format!("{name} {}", value.shown(n_digits)));
    all.collect::<Vec<_>>().join(", ")
}

/// Makes a figure of fairness and makespan of each policy, side by side.
fn both(name: &str, title: &str, x_label: &str, names: [&str; 4], values: [[Draws; 4]; 2]) -> Figure {
    let [fairness, makespan] = values.map(|values| values.map(|value| value.mean).to_vec());
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

/// Shows the effect of the choice at one level, the other being fixed.
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
               largest of all scenarios. Of Random it is the mean of its draws."
            .into(),
        claims: vec![
            percentage(
                "fairness by the choice at the first level, at most (section 6.5)",
                38.0,
                one(most(of_first(FAIRNESS))),
            ),
            percentage(
                "fairness by the choice at the second level, at most (section 6.5)",
                8.0,
                one(most(of_second(FAIRNESS))),
            ),
            likeness(
                "efficiency by either level is about the same in the worst case (section 6.5)",
                format!("first level {first:.1} %, second {second:.1} %"),
                &[("both", first, second)],
            ),
        ],
        ..Part::default()
    }
}
