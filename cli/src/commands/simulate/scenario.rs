//! One run of a scenario: a table of what it came to, as JSON, as CSV, and drawn.

use std::{
    ffi::OsStr,
    fmt, fs,
    io::{self, BufWriter, Write},
    path::Path,
};

use scheduler::time::Span;
use serde_json::{Map, Value, json};
use simulator::{
    report::{Figure, Listing},
    scenario::{
        Scenario,
        distribution::span,
        measures::{Account, Measure, Row},
        policies,
    },
};

use super::{SimulateArgs, subject::Subject, until_interrupted};
use crate::{
    failure::{Failure, Outcome},
    show::{
        self, Screen,
        format::{self, count, counted},
        table::{Cell, Side, Table},
    },
};

/// Runs the scenario once and says what it came to.
///
/// # Errors
/// The scenario's mistakes, or what cannot be written.
pub async fn run(args: &SimulateArgs) -> Result<Outcome, Failure> {
    let plot = args.plot.as_deref().map(Plot::of).transpose()?;
    let subject = Subject::load(args)?;
    let (scenario, is_traced) = (subject.scenario.clone(), args.trace);
    let work = move || {
        // It may be longer than memory.
        let mut out = BufWriter::new(io::stdout().lock());
        let mut line = |line: fmt::Arguments<'_>| {
            // Whoever reads no further still gets to know what it came to by the exit code.
            let _ = writeln!(out, "{line}");
        };
        scenario.run(if is_traced { Some(&mut line) } else { None })
    };
    let Some(result) = until_interrupted(work).await? else {
        show::say("interrupted; the run was not over");
        return Ok(Outcome::Interrupted);
    };
    let account = match result {
        Ok(account) => account,
        Err(violation) => {
            show::say(&format!("{}, seed {}: {violation}", subject.name, subject.scenario.seed));
            return Ok(Outcome::TasksFailed);
        }
    };
    if let Some(folder) = &args.csv {
        write_tables(folder, &[account.listing(), account.busy_cores()])?;
    }
    if let Some(plot) = plot {
        plot.write(&account.figure())?;
    }
    show::print(&if args.json { as_json(&subject, &account)? } else { words(&subject, &account) })?;
    Ok(Outcome::Fine)
}

/// A file for a figure; its name says what it is to be.
struct Plot<'a> {
    file: &'a Path,
    is_png: bool,
}

impl Plot<'_> {
    fn of(file: &Path) -> Result<Plot<'_>, Failure> {
        let is_png = match file.extension().and_then(OsStr::to_str) {
            Some("svg") => false,
            Some("png") => true,
            _ => {
                let expected = "give a name that ends in .svg or .png";
                return Err(Failure::bad_input(format!("--plot: found {}; {expected}", file.display())));
            }
        };
        Ok(Plot { file, is_png })
    }

    fn write(&self, figure: &Figure) -> Result<(), Failure> {
        let bytes = match self.is_png {
            true => figure.to_png().map_err(|error| Failure::infrastructure(error.to_string()))?,
            false => figure.to_svg().into_bytes(),
        };
        fs::write(self.file, bytes).map_err(|error| Failure::file("write", self.file, &error))
    }
}

/// Each as a CSV file of its name.
pub(super) fn write_tables(folder: &Path, tables: &[Listing]) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
    tables.iter().try_for_each(|table| {
        let file = folder.join(format!("{}.csv", table.name));
        fs::write(&file, table.to_csv()).map_err(|error| Failure::file("write", &file, &error))
    })
}

fn words(subject: &Subject, account: &Account) -> String {
    let scenario = &subject.scenario;
    let auditor = if account.is_audited { "; every rule held" } else { "" };
    let rows: Vec<_> =
        account.rows.iter().map(|row| (vec![row.group.word().to_owned(), row.name.clone()], row)).collect();
    format!(
        "{}{}, seed {}: {} of {}, {} on {}; {}{auditor}\n{}\n{}",
        subject.heading(),
        subject.name,
        scenario.seed,
        counted(scenario.n_tasks(), "task"),
        counted(scenario.n_jobs(), "job"),
        shown_policies(scenario),
        counted(scenario.platforms.len() as u64, "platform"),
        counted(account.n_events, "event"),
        subject.compared(account.all()),
        table(&["OF", "NAME"], &rows)
    )
}

/// `matching=turns bundling=guided`.
fn shown_policies(scenario: &Scenario) -> String {
    let pairs = policies::pairs(scenario.policies).into_iter();
    pairs.map(|(layer, word)| format!("{layer}={word}")).collect::<Vec<_>>().join(" ")
}

/// Measures of rows, each with words in front. Columns that say nothing in any row are left out.
pub(super) fn table(titles: &[&str], rows: &[(Vec<String>, &Row)]) -> String {
    let says_something =
        |measure: &Measure| rows.iter().any(|(_, row)| row.value(*measure).is_some_and(|value| value != 0.0));
    let shown: Vec<Measure> = Measure::ALL.into_iter().filter(says_something).collect();
    let mut table = Table::new(titles);
    for measure in &shown {
        table.column(title(*measure), Side::Right);
    }
    for (names, row) in rows {
        let names = names.iter().map(|name| Cell::from(name.as_str()));
        let values = shown
            .iter()
            .map(|measure| row.value(*measure).map_or("-".into(), |value| shown_value(*measure, value)));
        table.row(names.chain(values.map(Cell::from)).collect());
    }
    // Wide as it is: what is cut off would be missed.
    table.render(&Screen { width: None, ..Screen::stdout() })
}

fn title(measure: Measure) -> &'static str {
    match measure {
        Measure::Tasks => "TASKS",
        Measure::Failed => "FAILED",
        Measure::Fairness => "FAIRNESS",
        Measure::Makespan => "MAKESPAN",
        Measure::Flowtime => "FLOWTIME",
        Measure::Turnaround => "TURNAROUND",
        Measure::Slowdown => "SLOWDOWN",
        Measure::Wait => "WAIT",
        Measure::Throughput => "TASKS/H",
        Measure::Utilisation => "UTILISED",
        Measure::Pilots => "PILOTS",
        Measure::QueueWait => "QUEUED",
        Measure::Repeated => "REPEATED",
        Measure::Lost => "LOST",
    }
}

fn shown_value(measure: Measure, value: f64) -> String {
    let whole = |value: f64| count(value.round() as u64);
    match measure {
        Measure::Tasks | Measure::Failed | Measure::Pilots | Measure::Repeated | Measure::Throughput => {
            whole(value)
        }
        Measure::Fairness => format!("{value:.3}"),
        Measure::Slowdown => format!("{value:.2}"),
        Measure::Utilisation => format!("{:.1}%", value * 100.0),
        Measure::Makespan
        | Measure::Flowtime
        | Measure::Turnaround
        | Measure::Wait
        | Measure::QueueWait
        | Measure::Lost => {
            let rounded: Span = span(value);
            format::span(rounded)
        }
    }
}

fn as_json(subject: &Subject, account: &Account) -> Result<String, Failure> {
    show::json(&json!({
        "scenario": subject.name,
        "history": subject.facts(),
        "seed": subject.scenario.seed,
        "policies": policies_json(&subject.scenario),
        "is_audited": account.is_audited,
        "n_events": account.n_events,
        "measures": rows_json(&account.rows),
    }))
}

/// Layers and their words.
pub(super) fn policies_json(scenario: &Scenario) -> Value {
    let pairs = policies::pairs(scenario.policies).into_iter();
    Value::Object(pairs.map(|(layer, word)| (layer, Value::String(word))).collect())
}

/// An object a row; measures that mean nothing there are null.
pub(super) fn rows_json(rows: &[Row]) -> Value {
    let object = |row: &Row| {
        let mut fields = Map::new();
        fields.insert("of".into(), row.group.word().into());
        fields.insert("name".into(), row.name.clone().into());
        let value = |measure| match row.value(measure) {
            Some(value) if value.fract() == 0.0 && value < 1e15 => (value as u64).into(),
            value => value.into(),
        };
        fields.extend(Measure::ALL.map(|measure: Measure| (measure.word().to_owned(), value(measure))));
        Value::Object(fields)
    };
    rows.iter().map(object).collect()
}
