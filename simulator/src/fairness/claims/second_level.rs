//! Section 6.4: the policies of the second level.

use crate::report::{Claim, Part};

use super::{
    super::{
        runs::{Run, of},
        scenario::Scenario,
    },
    BEST, EFFICIENCY, FAIRNESS, SECONDS, Value, both, mean, percentage, statement, words,
};

pub(super) fn part(scenarios: &[Scenario], runs: &[Run]) -> Part {
    let of_best = |value: Value| {
        SECONDS.map(|second| mean(runs, value, |run| BEST.contains(&run.first) && run.second == second))
    };
    let (fairness, efficiency) = (of_best(FAIRNESS), of_best(EFFICIENCY));
    let mut claims = on_average(fairness, efficiency);
    claims.extend(against_random(scenarios.len(), runs));
    claims.push(by_raw_affinity(runs));
    let title = "Second-level policies, mean of 23 scenarios";
    Part {
        title: "Section 6.4: the second level".into(),
        text: "Means over all scenarios and the first levels Fairness, PAF, AAF, PA-RR with RPA. Random: the mean \
               of five runs."
            .into(),
        claims,
        tables: Vec::new(),
        figures: vec![both("second-level", title, "second level", SECONDS, [fairness, efficiency])],
    }
}

fn on_average(fairness: [f64; 4], efficiency: [f64; 4]) -> Vec<Claim> {
    // Within a thousandth two means count as equal.
    let is_best = |values: [f64; 4], which: usize, sign: f64| {
        values.iter().all(|value| sign * values[which] >= sign * value - 0.001)
    };
    let (fair, quick) = (words(SECONDS, fairness, 4), words(SECONDS, efficiency, 4));
    vec![
        statement(
            "AllCore is the worst, MAF the best (section 6.4)",
            format!("fairness: {fair}; makespan: {quick}"),
            is_best(fairness, 2, 1.0)
                && is_best(efficiency, 2, -1.0)
                && is_best(fairness, 0, -1.0)
                && is_best(efficiency, 0, 1.0),
        ),
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
    ]
}

/// MAF against Random with PA-RR, scenario by scenario.
fn against_random(n_scenarios: usize, runs: &[Run]) -> Vec<Claim> {
    let gains = |value: Value, sign: f64| -> Vec<f64> {
        let gain = |scenario: usize| {
            let of_second = |second| of(runs, scenario, ("PA-RR", "RPA"), second).map(value);
            Some(sign * (of_second("MAF")? / of_second("Random")? - 1.0) * 100.0)
        };
        (0..n_scenarios).filter_map(gain).collect()
    };
    let average = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (fairer, quicker) = (gains(FAIRNESS, 1.0), gains(EFFICIENCY, -1.0));
    vec![
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
    ]
}

fn by_raw_affinity(runs: &[Run]) -> Claim {
    let apart = |run: &Run| {
        let raw = of(runs, run.scenario, run.first, "MAF raw")?;
        Some((raw.makespan / run.makespan - 1.0).abs() * 100.0)
    };
    let most = runs.iter().filter(|run| run.second == "MAF").filter_map(apart).fold(0.0, f64::max);
    statement(
        "MAF by raw and by normalized affinity are similar, up to 8 % apart on one platform (section 6.4)",
        format!("makespans at most {most:.1} % apart"),
        most <= 8.0,
    )
}
