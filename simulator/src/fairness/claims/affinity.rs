//! Section 6.2: the comparison of the affinity metrics.

use crate::report::{Claim, Draws, Figure, Part, Shape};

use super::{
    super::runs::{Run, of},
    EFFICIENCY, FAIRNESS, Value, mean, one, percentage,
};

const AFFINITIES: [&str; 3] = ["throughput", "EPA", "RPA"];
const POLICIES: [&str; 3] = ["PAF", "AAF", "PA-RR"];

pub(super) fn part(runs: &[Run]) -> Part {
    let mut claims = on_average(runs);
    let fairer = gains(runs, "EPA", FAIRNESS);
    let quicker: Vec<f64> = gains(runs, "EPA", EFFICIENCY).into_iter().map(|gain| -gain).collect();
    claims.extend(in_runs("runs in which RPA is fairer than EPA (section 6.2)", [59.7, 24.3], &fairer));
    claims.extend(in_runs(
        "runs in which RPA is more efficient than EPA (section 6.2)",
        [64.3, 10.2],
        &quicker,
    ));
    Part {
        title: "Section 6.2: affinity metrics".into(),
        text: "Means over all scenarios and second levels; ± is over the five draws of Random.".into(),
        claims,
        tables: Vec::new(),
        figures: vec![
            bars(runs, "fairness", ["Fairness", "fairness"], FAIRNESS),
            bars(runs, "efficiency", ["Makespan", "makespan / that of Fairness + AllCore"], EFFICIENCY),
        ],
    }
}

fn on_average(runs: &[Run]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (other, fairness, efficiency) in [("throughput", 10.0, 8.0), ("EPA", 3.0, 2.0)] {
        let fairer = ratio(runs, FAIRNESS, other).into_iter().map(|ratio| (ratio - 1.0) * 100.0);
        claims.push(percentage(
            &format!("fairness with RPA against {other}, on average (section 6.2)"),
            fairness,
            Draws::of(fairer),
        ));
        let quicker = ratio(runs, EFFICIENCY, other).into_iter().map(|ratio| (1.0 - ratio) * 100.0);
        claims.push(percentage(
            &format!("efficiency with RPA against {other}, on average (section 6.2)"),
            efficiency,
            Draws::of(quicker),
        ));
    }
    claims
}

/// Returns, for each draw, the mean with RPA divided by the mean with another affinity.
fn ratio(runs: &[Run], value: Value, other: &str) -> Vec<f64> {
    let n_draws = runs.iter().map(Run::n_draws).max().unwrap_or(0);
    let in_draw = |n: usize| {
        let of_affinity = |name: &str| {
            let meant = runs.iter().filter(|run| run.first.1 == name);
            Draws::of(meant.map(|run| value(&run.drawn(n)))).mean
        };
        of_affinity("RPA") / of_affinity(other)
    };
    (0..n_draws).map(in_draw).collect()
}

/// Claims in how many runs there is a gain, and how large it is at most, both in percent.
fn in_runs(what: &str, published: [f64; 2], gains: &[f64]) -> [Claim; 2] {
    let n_gains = gains.iter().filter(|gain| **gain > 1e-9).count();
    let share = n_gains as f64 / gains.len() as f64 * 100.0;
    let most = gains.iter().copied().fold(0.0, f64::max);
    [percentage(what, published[0], one(share)), percentage("… by at most", published[1], one(most))]
}

/// Returns the gains of RPA over another affinity, all else equal, in percent for each pair.
fn gains(runs: &[Run], other: &str, value: Value) -> Vec<f64> {
    let of_rpa = runs.iter().filter(|run| run.first.1 == "RPA");
    let pairs =
        of_rpa.filter_map(|run| Some((run, of(runs, run.scenario, (run.first.0, other), run.second)?)));
    pairs.map(|(rpa, other)| (value(rpa) / value(other) - 1.0) * 100.0).collect()
}

fn bars(runs: &[Run], name: &str, [word, y_label]: [&str; 2], value: Value) -> Figure {
    let of_affinity = |affinity: &str| {
        let of_policy = |policy| mean(runs, value, |run| run.first == (policy, affinity)).mean;
        (affinity.to_owned(), POLICIES.map(of_policy).to_vec())
    };
    Figure {
        name: format!("affinity-{name}"),
        title: format!("Paper 000, section 6.2: {} by affinity metric", word.to_lowercase()),
        x_label: "first level".into(),
        y_label: y_label.into(),
        shape: Shape::Bars {
            categories: POLICIES.map(String::from).to_vec(),
            series: AFFINITIES.map(of_affinity).to_vec(),
        },
    }
}
