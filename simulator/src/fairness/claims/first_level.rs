//! Section 6.3: the policies of the first level.

use crate::report::{Cell, Claim, Draws, Listing, Part};

use super::{
    super::{
        runs::{Run, of},
        scenario::Scenario,
    },
    BEST, EFFICIENCY, FAIRNESS, Value, both, likeness, mean, statement, words,
};

pub(super) fn part(scenarios: &[Scenario], runs: &[Run]) -> Part {
    let with_maf =
        |value: Value| BEST.map(|first| mean(runs, value, |run| run.first == first && run.second == "MAF"));
    let (fairness, efficiency) = (with_maf(FAIRNESS), with_maf(EFFICIENCY));
    let title = "Paper 000, section 6.3: first-level policies with RPA and MAF, mean of 23 scenarios";
    Part {
        title: "Section 6.3: the first level".into(),
        text: "With RPA and MAF, where nothing is drawn by lot. k is 50 %, D_unit is 1.".into(),
        claims: claims(scenarios, runs, fairness, efficiency),
        tables: vec![
            table(scenarios, runs, ["fairness", "Fairness in each scenario"], FAIRNESS, 3),
            table(scenarios, runs, ["makespan", "Makespan in each scenario, s"], |run| run.makespan, 0),
        ],
        figures: vec![both("first-level", title, "first level", names(), [fairness, efficiency])],
    }
}

fn names() -> [&'static str; 4] {
    BEST.map(|(name, _)| name)
}

fn claims(scenarios: &[Scenario], runs: &[Run], fairness: [Draws; 4], efficiency: [Draws; 4]) -> Vec<Claim> {
    let is_best = |scenario: usize| {
        let of_policy = |first| of(runs, scenario, first, "MAF").map_or(0.0, FAIRNESS);
        BEST.iter().all(|first| of_policy(BEST[3]) >= of_policy(*first))
    };
    let n_best = (0..scenarios.len()).filter(|scenario| is_best(*scenario)).count();
    let (fair, quick) = (words(names(), fairness, 3), words(names(), efficiency, 3));
    let (fairness, efficiency) = (fairness.map(|value| value.mean), efficiency.map(|value| value.mean));
    vec![
        statement(
            "PA-RR is the fairest on average (section 6.3)",
            format!("{fair}; PA-RR in {n_best} of {} scenarios", scenarios.len()),
            fairness.iter().all(|value| fairness[3] >= *value),
        ),
        statement(
            "Fairness has the lowest efficiency (section 6.3)",
            format!("makespan of the baseline's: {quick}"),
            efficiency.iter().all(|value| efficiency[0] >= *value),
        ),
        statement(
            "PAF is the least fair (section 6.3)",
            fair,
            fairness.iter().all(|value| *value >= fairness[1]),
        ),
        likeness(
            "PAF's efficiency is like that of AAF and PA-RR (section 6.3)",
            format!("makespan of the baseline's: {quick}"),
            &[("AAF", efficiency[2], efficiency[1]), ("PA-RR", efficiency[3], efficiency[1])],
        ),
    ]
}

fn table(
    scenarios: &[Scenario],
    runs: &[Run],
    [name, title]: [&str; 2],
    value: Value,
    n_digits: usize,
) -> Listing {
    let row = |(place, scenario): (usize, &Scenario)| {
        let cells = BEST.iter().map(|first| {
            of(runs, place, *first, "MAF").map_or(Cell::Empty, |run| Cell::Number(value(run), n_digits))
        });
        std::iter::once(Cell::from(scenario.name.as_str())).chain(cells).collect()
    };
    Listing {
        name: format!("first-level-{name}"),
        title: title.into(),
        columns: std::iter::once("scenario").chain(names()).map(String::from).collect(),
        rows: scenarios.iter().enumerate().map(row).collect(),
    }
}
