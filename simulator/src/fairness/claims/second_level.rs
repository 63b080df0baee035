//! Section 6.4: the policies of the second level.

use crate::report::{Claim, Draws, Part, Verdict, verdict::Side};

use super::{
    super::{
        runs::{Run, of},
        scenario::Scenario,
    },
    BEST, EFFICIENCY, FAIRNESS, SECONDS, Value, both, likeness, mean, percentage, statement, words,
};

/// Means that differ by at most this much count as equal.
const EVEN: f64 = 0.001;

pub(super) fn part(scenarios: &[Scenario], runs: &[Run]) -> Part {
    let of_best = |value: Value| {
        SECONDS.map(|second| mean(runs, value, |run| BEST.contains(&run.first) && run.second == second))
    };
    let (fairness, efficiency) = (of_best(FAIRNESS), of_best(EFFICIENCY));
    let mut claims = on_average(fairness, efficiency);
    claims.extend(against_random(scenarios.len(), runs));
    claims.push(by_raw_affinity(runs));
    let title = "Paper 000, section 6.4: second-level policies, mean of 23 scenarios";
    Part {
        title: "Section 6.4: the second level".into(),
        text: "Means over all scenarios and the first levels Fairness, PAF, AAF, PA-RR with RPA. Random: \
               mean ± standard deviation of five draws of all scenarios."
            .into(),
        claims,
        tables: Vec::new(),
        figures: vec![both("second-level", title, "second level", SECONDS, [fairness, efficiency])],
    }
}

fn on_average(fair: [Draws; 4], quick: [Draws; 4]) -> Vec<Claim> {
    let (fairness, efficiency) = (fair.map(|value| value.mean), quick.map(|value| value.mean));
    let is_best = |values: [f64; 4], which: usize, sign: f64| {
        values.iter().all(|value| sign * values[which] >= sign * value - EVEN)
    };
    let nearer = if (efficiency[3] - efficiency[2]).abs() < (efficiency[3] - efficiency[1]).abs() {
        "nearer to MAF's"
    } else {
        ""
    };
    let (fair, quick) = (words(SECONDS, fair, 4), words(SECONDS, quick, 4));
    let both = |which: [usize; 2], values: [f64; 4]| {
        let [one, other] = which.map(|at| values[at]);
        format!("{} {one:.4}, {} {other:.4}", SECONDS[which[0]], SECONDS[which[1]])
    };
    let mut as_efficient = likeness(
        "… and as efficient",
        format!("makespan: {}", both([3, 1], efficiency)),
        &[("both", efficiency[1], efficiency[3])],
    );
    as_efficient.verdict = as_efficient.verdict.noting(nearer);
    vec![
        statement(
            "AllCore is the worst, MAF the best (section 6.4; means within 0.001 count as even)",
            format!("fairness: {fair}; makespan: {quick}"),
            is_best(fairness, 2, 1.0)
                && is_best(efficiency, 2, -1.0)
                && is_best(fairness, 0, -1.0)
                && is_best(efficiency, 0, 1.0),
        ),
        likeness(
            "CA-RR is as fair as Random (section 6.4)",
            both([3, 1], fairness),
            &[("both", fairness[1], fairness[3])],
        ),
        as_efficient,
    ]
}

/// Compares MAF with Random, both with PA-RR, scenario by scenario, in each draw.
fn against_random(n_scenarios: usize, runs: &[Run]) -> Vec<Claim> {
    let gains = |value: Value, sign: f64, draw: usize| -> Vec<f64> {
        let gain = |scenario: usize| {
            let of_second =
                |second| of(runs, scenario, ("PA-RR", "RPA"), second).map(|run| value(&run.drawn(draw)));
            Some(sign * (of_second("MAF")? / of_second("Random")? - 1.0) * 100.0)
        };
        (0..n_scenarios).filter_map(gain).collect()
    };
    let n_draws = runs.iter().map(Run::n_draws).max().unwrap_or(0);
    let average = |value: Value, sign: f64| {
        Draws::of((0..n_draws).map(|draw| Draws::of(gains(value, sign, draw)).mean))
    };
    let most = |value: Value, sign: f64| {
        let of_draw = |draw| gains(value, sign, draw).into_iter().fold(f64::NEG_INFINITY, f64::max);
        Draws::of((0..n_draws).map(of_draw))
    };
    vec![
        percentage(
            "fairness of MAF against Random with PA-RR, on average (section 6.4)",
            2.0,
            average(FAIRNESS, 1.0),
        ),
        percentage("… at most", 5.0, most(FAIRNESS, 1.0)),
        percentage(
            "efficiency of MAF against Random with PA-RR, on average (section 6.4)",
            3.7,
            average(EFFICIENCY, -1.0),
        ),
        percentage("… at most", 9.0, most(EFFICIENCY, -1.0)),
    ]
}

fn by_raw_affinity(runs: &[Run]) -> Claim {
    let apart = |run: &Run| {
        let raw = of(runs, run.scenario, run.first, "MAF raw")?;
        Some((raw.makespan / run.makespan - 1.0).abs() * 100.0)
    };
    let most = runs.iter().filter(|run| run.second == "MAF").filter_map(apart).fold(0.0, f64::max);
    Claim::new(
        "MAF by raw and by normalized affinity are similar, up to 8 % apart on one platform (section 6.4)",
        "up to 8 %",
        format!("makespans at most {most:.1} % apart"),
        Verdict::of_bound(Side::AtMost, 8.0, most, ""),
    )
}
