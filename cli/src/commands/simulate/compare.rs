//! Many runs of a scenario: all combinations of policies and many seeds, a row each.

use std::{
    collections::BTreeMap,
    iter,
    sync::{Arc, Mutex, PoisonError},
};

use indicatif::ProgressBar;
use protocol::policies;
use scheduler::policy::Policies;
use serde_json::{Value, json};
use simulator::{
    faults::Violation,
    grid,
    report::{Cell, Listing},
    scenario::{
        Scenario,
        measures::{Account, Measure, Row},
        patience::HowFar,
    },
};

use super::{
    SimulateArgs, progress,
    scenario::{Line, policies_json, rows_json, say_stopped, table},
    subject::Subject,
    targets::Targets,
    until_interrupted,
};
use crate::{
    failure::{Failure, Outcome},
    show,
};

/// Layers that are not compared with `--what-if`, and why.
const UNKNOWABLE: [(&str, &str); 3] = [
    (
        "mapping",
        "a store tells what tasks took beside those that were on their nodes then, and not beside others. In a \
         scenario, `slowed_by` says it",
    ),
    ("scaling", "a store tells what tasks took in as many slots as their nodes had then, and not in others"),
    (
        "stealing",
        "pilots take tasks from each other by the files that these read, and a store does not tell where those lay",
    ),
];

/// All runs: the first seed of each combination, then the second, so that each has about as many whenever it
/// is interrupted.
#[derive(Clone)]
struct Runs {
    scenario: Scenario,
    combinations: Vec<Policies>,
    n_seeds: u64,
}

/// What those came to that have ended, by their number.
type Ended = BTreeMap<u64, Result<Account, Violation>>;

/// One combination: means and deviations over its seeds.
struct Combination {
    policies: Policies,
    n_seeds: usize,
    rows: Vec<Row>,
    deviations: Vec<Row>,
}

impl Runs {
    fn of(scenario: &Scenario, combinations: Vec<Policies>, n_seeds: u64) -> Result<Runs, Failure> {
        let (first, scenario) = (scenario.seed, scenario.clone());
        let are_seeds = first.checked_add(n_seeds).and(n_seeds.checked_mul(combinations.len() as u64));
        match are_seeds {
            Some(_) => Ok(Runs { scenario, combinations, n_seeds }),
            None => Err(Failure::bad_input(format!(
                "--seed {first} and --seeds {n_seeds}: there are no such seeds"
            ))),
        }
    }

    fn n(&self) -> u64 {
        self.n_seeds * self.combinations.len() as u64
    }

    fn scenario(&self, n: u64) -> Scenario {
        let n_combinations = self.combinations.len() as u64;
        let mut scenario = self.scenario.clone();
        scenario.seed += n / n_combinations;
        scenario.policies = self.combinations[(n % n_combinations) as usize];
        scenario
    }

    /// What a run is called: its policies and its seed.
    fn name(&self, subject: &str, n: u64) -> String {
        let scenario = self.scenario(n);
        let words: Vec<String> = policies::pairs(scenario.policies)
            .into_iter()
            .map(|(layer, word)| format!("{layer}={word}"))
            .collect();
        format!("{subject}, {}, seed {}", words.join(" "), scenario.seed)
    }

    /// Those combinations of which a run has ended as it should.
    fn combined(&self, ended: &Ended) -> Vec<Combination> {
        let n_combinations = self.combinations.len() as u64;
        let combination = |(n, policies): (u64, &Policies)| {
            let own = ended.iter().filter(|(run, _)| *run % n_combinations == n);
            let accounts = own.filter_map(|(_, ended)| ended.as_ref().ok());
            let runs: Vec<&Account> = accounts.filter(|account| account.stopped.is_none()).collect();
            let n_rows = runs.first()?.rows.len();
            let of_row = |n: usize| -> Vec<&Row> { runs.iter().map(|account| &account.rows[n]).collect() };
            Some(Combination {
                policies: *policies,
                n_seeds: runs.len(),
                rows: (0..n_rows).filter_map(|n| Row::mean(&of_row(n))).collect(),
                deviations: (0..n_rows).filter_map(|n| Row::deviation(&of_row(n))).collect(),
            })
        };
        (0..).zip(&self.combinations).filter_map(combination).collect()
    }
}

/// Runs all combinations with all seeds.
///
/// # Errors
/// Mistakes in the scenario or in `--compare`, or what cannot be written.
pub async fn run(args: &SimulateArgs) -> Result<Outcome, Failure> {
    let layers = layers(&args.compare)?;
    if args.what_if.is_some() {
        check_knowable(&layers)?;
    }
    let targets = Targets::check(args, &["compare"])?;
    let subject = Subject::load(args)?;
    let combinations = combinations(&layers, subject.scenario.policies)?;
    let runs = Runs::of(&subject.scenario, combinations, args.seeds)?;
    let (n_runs, bar) = (runs.n(), progress::of_many(runs.n(), subject.scenario.n_tasks()));
    let ended: Arc<Mutex<Ended>> = Arc::default();
    let (shared, told, those) = (Arc::clone(&ended), bar.clone(), runs.clone());
    let work = move || {
        grid::each(
            0..n_runs,
            |n| run_one(&those.scenario(n), &told),
            |n, result| {
                let mut ended = shared.lock().unwrap_or_else(PoisonError::into_inner);
                ended.insert(n, result);
                told.set_message(ended.len().to_string());
            },
        );
    };
    let result = until_interrupted(work).await;
    progress::end(&bar);
    let is_finished = result?.is_some();
    let ended = std::mem::take(&mut *ended.lock().unwrap_or_else(PoisonError::into_inner));
    let is_sound = tell_troubles(&subject.name, &runs, &ended);
    let combined = runs.combined(&ended);
    if !combined.is_empty() {
        targets.write_tables(&[listing(&combined, args.seeds)])?;
        show::print(&if args.json {
            as_json(&subject, args, &combined)?
        } else {
            words(&subject, &layers, args, &combined)
        })?;
    }
    if !is_finished {
        let n_ended = ended.len();
        show::say(&format!("interrupted after {n_ended} of {n_runs} runs"));
        return Ok(Outcome::Interrupted);
    }
    Ok(if is_sound { Outcome::Fine } else { Outcome::TasksFailed })
}

fn run_one(scenario: &Scenario, bar: &ProgressBar) -> Result<Account, Violation> {
    let mut n_told = 0;
    let mut told = |how_far: HowFar| {
        bar.inc(how_far.n_ended - n_told);
        n_told = how_far.n_ended;
    };
    let result = scenario.run_told(None, &mut told);
    bar.inc(scenario.n_tasks() - n_told);
    // They would take more memory than all that is shown.
    result.map(|account| Account { timelines: Vec::new(), ..account })
}

/// `matching=turns,fifo`: a layer and its words.
fn layers(compared: &[String]) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let mut layers: Vec<(String, Vec<String>)> = Vec::new();
    for text in compared {
        let Some((layer, words)) = text.split_once('=') else {
            return Err(Failure::bad_input(format!(
                "--compare: found `{text}`; write a layer and its policies, like matching=turns,fifo"
            )));
        };
        // A layer's whole name in a scenario and in manager.yaml is that of its block too.
        let prefixes = ["policies.", "policy."];
        let layer = prefixes.iter().find_map(|prefix| layer.strip_prefix(prefix)).unwrap_or(layer);
        if layers.iter().any(|(known, _)| known == layer) {
            return Err(Failure::bad_input(format!(
                "--compare: found the layer `{layer}` a second time; write all of its policies together"
            )));
        }
        let mut words: Vec<String> = words.split(',').map(str::to_owned).collect();
        words.dedup();
        layers.push((layer.to_owned(), words));
    }
    Ok(layers)
}

/// Refuses layers of which a history does not tell what another policy would come to.
fn check_knowable(layers: &[(String, Vec<String>)]) -> Result<(), Failure> {
    let found = layers.iter().filter_map(|(layer, _)| {
        let (_, why) = UNKNOWABLE.iter().find(|(unknowable, _)| unknowable == layer)?;
        Some(format!("--compare: found the layer `{layer}` with --what-if; name other layers: {why}"))
    });
    let found: Vec<String> = found.collect();
    if found.is_empty() { Ok(()) } else { Err(Failure::BadInput(found)) }
}

/// All combinations, the last layer varying fastest.
fn combinations(layers: &[(String, Vec<String>)], base: Policies) -> Result<Vec<Policies>, Failure> {
    let mut all = vec![base];
    let mut mistakes = Vec::new();
    for (layer, words) in layers {
        let mut next = Vec::new();
        for policies in &all {
            for word in words {
                match policies::with(*policies, layer, word) {
                    Ok(with) => next.push(with),
                    Err(refused) => {
                        mistakes.push(format!("--compare: {refused}"));
                        // Of an unknown layer no word is right.
                        if refused.is_layer {
                            break;
                        }
                    }
                }
            }
        }
        if !next.is_empty() {
            all = next;
        }
    }
    mistakes.dedup();
    if mistakes.is_empty() { Ok(all) } else { Err(Failure::BadInput(mistakes)) }
}

/// Says what did not hold and what was given up, if anything.
fn tell_troubles(name: &str, runs: &Runs, ended: &Ended) -> bool {
    let mut is_sound = true;
    for (n, ended) in ended {
        match ended {
            Err(violation) => show::say(&format!("{}: {violation}", runs.name(name, *n))),
            Ok(Account { stopped: Some(stopped), .. }) => say_stopped(&runs.name(name, *n), stopped),
            Ok(_) => continue,
        }
        is_sound = false;
    }
    is_sound
}

fn words(
    subject: &Subject,
    layers: &[(String, Vec<String>)],
    args: &SimulateArgs,
    combined: &[Combination],
) -> String {
    let words_of = |one: &Combination| {
        let pairs = policies::pairs(one.policies);
        let word =
            |layer: &String| pairs.iter().find(|(known, _)| known == layer).map(|(_, word)| word.clone());
        layers.iter().filter_map(|(layer, _)| word(layer)).collect::<Vec<String>>()
    };
    let lines = combined.iter().filter_map(|one| {
        Some(Line { words: words_of(one), row: one.rows.first()?, deviation: one.deviations.first() })
    });
    let mut lines: Vec<Line<'_>> = lines.collect();
    let titles: Vec<String> = layers.iter().map(|(layer, _)| layer.to_uppercase()).collect();
    let mut titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    // Where some are missing it matters how many each has.
    let are_all = combined.iter().all(|one| one.n_seeds as u64 == args.seeds);
    if !are_all {
        titles.push(">SEEDS");
        lines.iter_mut().zip(combined).for_each(|(line, one)| line.words.push(one.n_seeds.to_string()));
    }
    if let Some(history) = subject.history() {
        titles.insert(0, "OF");
        lines.iter_mut().for_each(|line| line.words.insert(0, "replay".into()));
        let unknown = titles.iter().skip(1).map(|_| "-".to_owned());
        lines.insert(0, Line::of(iter::once("history".to_owned()).chain(unknown).collect(), history));
    }
    let means = match (args.seeds, are_all) {
        (1, _) => String::new(),
        (n, true) => format!("\nMeans ± standard deviations over {n} seeds.\n"),
        (_, false) => "\nMeans ± standard deviations over the seeds that are done.\n".to_owned(),
    };
    subject.heading() + &table(&titles, &lines) + &means
}

/// With the standard deviations of all measures behind their means, where there are several seeds.
fn listing(combined: &[Combination], n_seeds: u64) -> Listing {
    let number = |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Number(value, 3));
    let layers = combined.first().map(|one| policies::pairs(one.policies)).unwrap_or_default();
    let heads = layers.into_iter().map(|(layer, _)| layer).chain(["of", "name"].map(str::to_owned));
    let heads = heads.chain(Measure::ALL.map(|measure| measure.word().to_owned()));
    let deviated = if n_seeds > 1 { &Measure::ALL[..] } else { &[] };
    let heads = heads.chain(deviated.iter().map(|measure| format!("{}_sd", measure.word())));
    let mut rows = Vec::new();
    for one in combined {
        for (row, deviation) in one.rows.iter().zip(&one.deviations) {
            let words = policies::pairs(one.policies).into_iter().map(|(_, word)| Cell::from(word));
            let names = [Cell::from(row.group.word()), Cell::from(row.name.as_str())];
            let values = Measure::ALL.map(|measure| number(row.value(measure)));
            let deviations = deviated.iter().map(|measure| number(deviation.value(*measure)));
            rows.push(words.chain(names).chain(values).chain(deviations).collect());
        }
    }
    Listing { name: "compare".into(), title: "Policies compared".into(), columns: heads.collect(), rows }
}

fn as_json(subject: &Subject, args: &SimulateArgs, combined: &[Combination]) -> Result<String, Failure> {
    let runs = combined.iter().map(|one| {
        // One run has none.
        let deviations = if args.seeds > 1 { rows_json(&one.deviations) } else { Value::Null };
        json!({
            "policies": policies_json(one.policies),
            "n_seeds": one.n_seeds,
            "measures": rows_json(&one.rows),
            "deviations": deviations,
        })
    });
    show::json(&json!({
        "scenario": subject.name,
        "history": subject.facts(),
        "first_seed": subject.scenario.seed,
        "n_seeds": args.seeds,
        "runs": runs.collect::<Vec<_>>(),
    }))
}
