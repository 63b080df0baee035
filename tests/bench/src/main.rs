//! The benchmarks: measures every line of the budget table and prints each figure with its budget.
//! Asserts no time. `tests/bench/run` builds and starts it; `docs/performance.md` says what came out.

mod api;
mod company;
mod events;
mod figure;
mod floor;
mod http;
mod lines;
mod measure;
mod peer;
mod pilots;
mod place;
mod plain;
mod serve;

use std::{path::PathBuf, process::ExitCode, time::Instant};

use figure::Figure;
use lines::Line;
use place::Expected;

/// Whatever went wrong: a benchmark ends and says it.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;

const HELP: &str = "\
Measures the lines of the budget table and prints each figure beside its budget. Asserts no time.

Usage: tests/bench/run [--json] [LINE…]

  --json   one JSON object a figure
  --list   the lines that there are
  --help   this text";

const EXIT_USAGE: u8 = 2;
const EXIT_TROUBLE: u8 = 3;
const EXIT_INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.first().map(String::as_str) {
        Some("serve") => serve_for_ourselves(&words[1..]).map(|()| ExitCode::SUCCESS),
        Some("answer") => lines::resident::answer(&words[1..]).map(|()| ExitCode::SUCCESS),
        _ => bench(&words),
    };
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(EXIT_TROUBLE)
    })
}

fn bench(words: &[String]) -> Result<ExitCode, Trouble> {
    let all = lines::all();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if has("--help") || has("-h") {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    if has("--list") {
        all.iter().for_each(|line| println!("{:<14} {}", line.name, line.help));
        return Ok(ExitCode::SUCCESS);
    }
    let is_json = has("--json");
    let asked: Vec<&String> = words.iter().filter(|word| *word != "--json").collect();
    if let Some(unknown) = asked.iter().find(|word| all.iter().all(|line| line.name != **word)) {
        let known: Vec<&str> = all.iter().map(|line| line.name).collect();
        eprintln!("found `{unknown}`; the lines are {}", known.join(", "));
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let wanted: Vec<&Line> =
        all.iter().filter(|line| asked.is_empty() || asked.iter().any(|word| *word == line.name)).collect();
    measure::raise_file_limit();
    // One thread for simulated pilots, one that measures.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut is_all_well = true;
    for line in wanted {
        // What a line has started ends with it.
        let measured = async {
            tokio::select! {
                is_well = measure_line(line, is_json) => Some(is_well),
                _ = tokio::signal::ctrl_c() => None,
            }
        };
        let Some(is_well) = runtime.block_on(measured) else { return Ok(ExitCode::from(EXIT_INTERRUPTED)) };
        is_all_well &= is_well;
    }
    Ok(if is_all_well { ExitCode::SUCCESS } else { ExitCode::from(EXIT_TROUBLE) })
}

/// Whether it could be measured, not how well it came out.
async fn measure_line(line: &Line, is_json: bool) -> bool {
    // First, since some lines take half a minute.
    if !is_json {
        println!("== {}: {}", line.name, line.help);
    }
    let began = Instant::now();
    match (line.measure)().await {
        Ok(figures) => {
            show(&figures, is_json);
            if !is_json {
                println!("   ({:.1} s)", began.elapsed().as_secs_f64());
            }
            true
        }
        Err(error) => {
            eprintln!("{}: {error}", line.name);
            false
        }
    }
}

fn show(figures: &[Figure], is_json: bool) {
    if is_json {
        for figure in figures {
            let mut row = serde_json::to_value(figure).unwrap_or_default();
            row["is_met"] = figure.is_met().into();
            println!("{row}");
        }
        return;
    }
    figures.iter().for_each(|figure| println!("{}", figure.show()));
}

/// `serve --pilots N --cores N --dir FOLDER`, which only this program says to itself.
fn serve_for_ourselves(words: &[String]) -> Result<(), Trouble> {
    let value = |flag: &str| {
        let at = words.iter().position(|word| word == flag);
        at.and_then(|at| words.get(at + 1)).ok_or_else(|| format!("serve: found no {flag}"))
    };
    let has_grace = !words.iter().any(|word| word == "--no-grace");
    let expected =
        Expected { n_pilots: value("--pilots")?.parse()?, cores: value("--cores")?.parse()?, has_grace };
    serve::serve(PathBuf::from(value("--dir")?), expected)
}
