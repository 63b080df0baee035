//! Many runs of a scenario: all combinations of policies and many seeds, a row each.

use std::{
    iter,
    sync::{Arc, Mutex, PoisonError},
};

use scheduler::policy::Policies;
use serde_json::json;
use simulator::{
    faults::Violation,
    grid,
    report::{Cell, Listing},
    scenario::{
        Scenario,
        measures::{Measure, Row},
        policies,
    },
};

use super::{
    SimulateArgs, bar,
    scenario::{policies_json, rows_json, table, write_tables},
    subject::Subject,
    until_interrupted,
};
use crate::{
    failure::{Failure, Outcome},
    show,
};

/// The rows of a run, or what did not hold.
type Ended = Result<Vec<Row>, Violation>;

/// One combination: the means over its seeds.
struct Combination {
    scenario: Scenario,
    n_seeds: usize,
    rows: Vec<Row>,
}

/// Runs all combinations with all seeds.
///
/// # Errors
/// Mistakes in the scenario or in `--compare`, or what cannot be written.
pub async fn run(args: &SimulateArgs) -> Result<Outcome, Failure> {
    let subject = Subject::load(args)?;
    let scenario = &subject.scenario;
    let layers = layers(&args.compare)?;
    let combinations = combinations(&layers, scenario.policies)?;
    let seeds = args.seeds;
    let Some(_) = scenario.seed.checked_add(seeds) else {
        return Err(Failure::bad_input(format!(
            "--seed {} and --seeds {seeds}: there are no such seeds",
            scenario.seed
        )));
    };
    let one = |policies: Policies, n: u64| {
        let mut one = scenario.clone();
        (one.seed, one.policies) = (scenario.seed + n, policies);
        one
    };
    let of = |policies: &Policies| (0..seeds).map(|n| one(*policies, n)).collect::<Vec<_>>();
    let inputs: Vec<Scenario> = combinations.iter().flat_map(of).collect();
    let (n_runs, bar) = (inputs.len(), bar(inputs.len() as u64, "runs"));
    let ended: Arc<Mutex<Vec<Option<Ended>>>> = Arc::new(Mutex::new(vec![None; n_runs]));
    let (shared, told, subjects) = (Arc::clone(&ended), bar.clone(), inputs.clone());
    let work = move || {
        let run = |n: u64| subjects[n as usize].run(None).map(|account| account.rows);
        grid::each(0..n_runs as u64, run, |n, rows| {
            shared.lock().unwrap_or_else(PoisonError::into_inner)[n as usize] = Some(rows);
            told.inc(1);
        });
    };
    let is_finished = until_interrupted(work).await?.is_some();
    bar.finish_and_clear();
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let is_sound = tell_violations(&subject.name, &inputs, &ended);
    let n_ended = ended.iter().flatten().count();
    let combined: Vec<Combination> =
        inputs.chunks(seeds as usize).zip(ended.chunks(seeds as usize)).filter_map(combined).collect();
    if let Some(folder) = &args.csv {
        write_tables(folder, &[listing(&combined)])?;
    }
    if combined.is_empty() && !is_finished {
        show::say(&format!("interrupted before any of {n_runs} runs was done"));
        return Ok(Outcome::Interrupted);
    }
    show::print(&if args.json {
        as_json(&subject, args, &combined)?
    } else {
        words(&subject, &layers, args, &combined)
    })?;
    if !is_finished {
        show::say(&format!("interrupted after {n_ended} of {n_runs} runs"));
        return Ok(Outcome::Interrupted);
    }
    Ok(if is_sound { Outcome::Fine } else { Outcome::TasksFailed })
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
                        mistakes.push(format!("--compare: found {}; {}", refused.found, refused.expected));
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

/// Says what did not hold, if anything.
fn tell_violations(name: &str, inputs: &[Scenario], ended: &[Option<Ended>]) -> bool {
    let mut is_sound = true;
    for (scenario, ended) in inputs.iter().zip(ended) {
        if let Some(Err(violation)) = ended {
            show::say(&format!("{name}, seed {}: {violation}", scenario.seed));
            is_sound = false;
        }
    }
    is_sound
}

/// The means over the seeds that are done.
fn combined((inputs, ended): (&[Scenario], &[Option<Ended>])) -> Option<Combination> {
    let runs: Vec<&Vec<Row>> = ended.iter().filter_map(|ended| ended.as_ref()?.as_ref().ok()).collect();
    let n_rows = runs.first()?.len();
    let mean = |n: usize| Row::mean(&runs.iter().map(|rows| &rows[n]).collect::<Vec<_>>());
    Some(Combination {
        scenario: inputs.first()?.clone(),
        n_seeds: runs.len(),
        rows: (0..n_rows).filter_map(mean).collect(),
    })
}

fn words(
    subject: &Subject,
    layers: &[(String, Vec<String>)],
    args: &SimulateArgs,
    combined: &[Combination],
) -> String {
    let words_of = |one: &Combination| {
        let pairs = policies::pairs(one.scenario.policies);
        let word =
            |layer: &String| pairs.iter().find(|(known, _)| known == layer).map(|(_, word)| word.clone());
        layers.iter().filter_map(|(layer, _)| word(layer)).collect::<Vec<String>>()
    };
    let mut rows: Vec<_> =
        combined.iter().filter_map(|one| Some((words_of(one), one.rows.first()?))).collect();
    let titles: Vec<String> = layers.iter().map(|(layer, _)| layer.to_uppercase()).collect();
    let mut titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    if let Some(history) = subject.history() {
        titles.insert(0, "OF");
        rows.iter_mut().for_each(|(words, _)| words.insert(0, "replay".into()));
        let unknown = layers.iter().map(|_| "-".to_owned());
        rows.insert(0, (iter::once("history".to_owned()).chain(unknown).collect(), history));
    }
    let means = match args.seeds {
        1 => String::new(),
        _ => format!("\nMeans over {} seeds.\n", combined.iter().map(|one| one.n_seeds).min().unwrap_or(0)),
    };
    subject.heading() + &table(&titles, &rows) + &means
}

fn listing(combined: &[Combination]) -> Listing {
    let number = |value: Option<f64>| value.map_or(Cell::Empty, |value| Cell::Number(value, 3));
    let layers = combined.first().map(|one| policies::pairs(one.scenario.policies)).unwrap_or_default();
    let heads = layers.iter().map(|(layer, _)| layer.as_str()).chain(["of", "name"]);
    let heads = heads.chain(Measure::ALL.map(Measure::word));
    let mut rows = Vec::new();
    for one in combined {
        for row in &one.rows {
            let words = policies::pairs(one.scenario.policies).into_iter().map(|(_, word)| Cell::from(word));
            let names = [Cell::from(row.group.word()), Cell::from(row.name.as_str())];
            let values = Measure::ALL.map(|measure| number(row.value(measure)));
            rows.push(words.chain(names).chain(values).collect());
        }
    }
    Listing {
        name: "compare".into(),
        title: "Policies compared".into(),
        columns: heads.map(str::to_owned).collect(),
        rows,
    }
}

fn as_json(subject: &Subject, args: &SimulateArgs, combined: &[Combination]) -> Result<String, Failure> {
    let runs = combined.iter().map(|one| {
        json!({
            "policies": policies_json(&one.scenario),
            "n_seeds": one.n_seeds,
            "measures": rows_json(&one.rows),
        })
    });
    show::json(&json!({
        "scenario": subject.name,
        "history": subject.facts(),
        "first_seed": combined.first().map(|one| one.scenario.seed),
        "n_seeds": args.seeds,
        "runs": runs.collect::<Vec<_>>(),
    }))
}
