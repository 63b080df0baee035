//! One run of a scenario: a table of what it came to, as JSON, as CSV, and drawn.

use std::{
    fmt,
    io::{self, BufWriter, Write},
    sync::{Arc, Mutex, PoisonError},
};

use indicatif::ProgressBar;
use protocol::{api::ReasonRow, policies};
use scheduler::{explain::Reason, policy::Policies, time::Span};
use serde_json::{Map, Value, json};
use simulator::scenario::{
    Scenario,
    distribution::span,
    measures::{Account, Measure, Row},
    patience::{Cause, HowFar, Stopped},
};

use super::{SimulateArgs, progress, subject::Subject, targets::Targets, until_interrupted};
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
    let targets = Targets::check(args, &["measures", "busy-cores"])?;
    let subject = Subject::load(args)?;
    let (scenario, is_traced) = (subject.scenario.clone(), args.trace);
    let bar = if is_traced { ProgressBar::hidden() } else { progress::of_tasks(scenario.n_tasks()) };
    let before = HowFar { n_tasks: scenario.n_tasks(), ..HowFar::default() };
    let (how_far, shown) = (Arc::new(Mutex::new(before)), bar.clone());
    let seen = Arc::clone(&how_far);
    let work = move || {
        // It may be longer than memory.
        let mut out = BufWriter::new(io::stdout().lock());
        let mut line = |line: fmt::Arguments<'_>| {
            // Whoever reads no further still gets to know what it came to by the exit code.
            let _ = writeln!(out, "{line}");
        };
        let mut told = |how_far: HowFar| {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = how_far;
            progress::show(&shown, how_far);
        };
        scenario.run_told(if is_traced { Some(&mut line) } else { None }, &mut told)
    };
    let result = until_interrupted(work).await;
    progress::end(&bar);
    let Some(result) = result? else {
        let how_far = *how_far.lock().unwrap_or_else(PoisonError::into_inner);
        show::say(&format!("interrupted {}", reached(&how_far)));
        return Ok(Outcome::Interrupted);
    };
    let account = match result {
        Ok(account) => account,
        Err(violation) => {
            show::say(&format!("{}, seed {}: {violation}", subject.name, subject.scenario.seed));
            return Ok(Outcome::TasksFailed);
        }
    };
    targets.write_tables(&[account.listing(), account.busy_cores()])?;
    targets.draw(&account.figure())?;
    show::print(&if args.json { as_json(&subject, &account)? } else { words(&subject, &account) })?;
    let Some(stopped) = &account.stopped else { return Ok(Outcome::Fine) };
    say_stopped(&format!("{}, seed {}", subject.name, subject.scenario.seed), stopped);
    Ok(Outcome::TasksFailed)
}

/// `after 3d 04h of simulated time, with 12 of 400 tasks over`.
fn reached(how_far: &HowFar) -> String {
    let HowFar { at, n_ended, n_tasks } = how_far;
    format!(
        "after {} of simulated time, with {} of {} over",
        format::span(*at),
        count(*n_ended),
        counted(*n_tasks, "task")
    )
}

/// Why a run was given up, and what was waiting for what.
pub(super) fn say_stopped(run: &str, stopped: &Stopped) {
    show::say(&format!("{run}: stopped {}: {}", reached(&stopped.how_far), stopped.cause));
    let sentences =
        |reasons: &[Reason]| reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    for job in &stopped.waiting {
        let n_open = counted(job.n_open, "open task");
        show::say(&format!("{} of {}, {n_open}: {}", job.application, job.user, sentences(&job.reasons)));
    }
    if stopped.waiting.is_empty() {
        show::say("the manager has no job that is open");
    }
    for (name, reasons) in &stopped.platforms {
        show::say(&format!("platform {name}: {}", sentences(reasons)));
    }
    if let Cause::NothingEnds(_) = stopped.cause {
        show::say("if that is as it should be, give the scenario more `patience`");
    }
}

fn words(subject: &Subject, account: &Account) -> String {
    let scenario = &subject.scenario;
    let auditor = if account.is_audited { "; every rule held" } else { "" };
    let rows: Vec<_> = account
        .rows
        .iter()
        .map(|row| Line::of(vec![row.group.word().to_owned(), row.name.clone()], row))
        .collect();
    let subject_line = format!(
        "{}, seed {}: {} of {}, {} on {}; {}{auditor}",
        subject.name,
        scenario.seed,
        counted(scenario.n_tasks(), "task"),
        counted(scenario.n_jobs(), "job"),
        shown_policies(scenario),
        counted(scenario.platforms.len() as u64, "platform"),
        counted(account.n_events, "event"),
    );
    let text = [subject.heading(), format!("{subject_line}\n"), subject.compared(account.all())].concat();
    let text = Screen::stdout().wrapped(&text);
    let table = table(&["OF", "NAME"], &rows);
    if table.is_empty() { text } else { format!("{text}\n{table}") }
}

/// `matching=turns bundling=guided`.
fn shown_policies(scenario: &Scenario) -> String {
    let pairs = policies::pairs(scenario.policies).into_iter();
    pairs.map(|(layer, word)| format!("{layer}={word}")).collect::<Vec<_>>().join(" ")
}

/// A line of a table of measures.
pub(super) struct Line<'a> {
    /// In front.
    pub(super) words: Vec<String>,
    pub(super) row: &'a Row,
    /// Standard deviations of what are means.
    pub(super) deviation: Option<&'a Row>,
}

impl<'a> Line<'a> {
    /// Of one run.
    pub(super) fn of(words: Vec<String>, row: &'a Row) -> Line<'a> {
        Line { words, row, deviation: None }
    }

    fn shown(&self, measure: Measure) -> String {
        let Some(value) = self.row.value(measure) else { return "-".into() };
        // Where all runs came to the same there is nothing to be said of it.
        let deviation =
            self.deviation.and_then(|row| row.value(measure)).filter(|deviation| *deviation > 0.0);
        match deviation {
            Some(deviation) => {
                format!("{} ± {}", shown_value(measure, value), shown_value(measure, deviation))
            }
            None => shown_value(measure, value),
        }
    }
}

/// Measures of rows, each with words in front. Columns that say nothing in any row are left out; without any column there
/// is no table.
pub(super) fn table(titles: &[&str], lines: &[Line<'_>]) -> String {
    let says_something = |measure: &Measure| {
        lines.iter().any(|line| line.row.value(*measure).is_some_and(|value| value != 0.0))
    };
    let shown: Vec<Measure> = Measure::ALL.into_iter().filter(says_something).collect();
    if shown.is_empty() {
        return String::new();
    }
    let mut table = Table::new(titles);
    for measure in &shown {
        table.column(title(*measure), Side::Right);
    }
    for line in lines {
        let words = line.words.iter().map(|word| Cell::from(word.as_str()));
        let values = shown.iter().map(|measure| Cell::from(line.shown(*measure)));
        table.row(words.chain(values).collect());
    }
    table.render(&Screen::stdout())
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
        "policies": policies_json(subject.scenario.policies),
        "is_audited": account.is_audited,
        "n_events": account.n_events,
        "stopped": account.stopped.as_ref().map(stopped_json),
        "measures": rows_json(&account.rows),
    }))
}

/// Why a run was given up.
fn stopped_json(stopped: &Stopped) -> Value {
    let Stopped { cause, how_far, waiting, platforms } = stopped;
    let rows = |reasons: &[Reason]| -> Vec<ReasonRow> {
        let row = |reason: &Reason| ReasonRow { text: reason.to_string(), reason: reason.clone() };
        reasons.iter().map(row).collect()
    };
    let waiting = waiting.iter().map(|job| {
        json!({
            "user": job.user,
            "application": job.application,
            "n_open": job.n_open,
            "reasons": rows(&job.reasons),
        })
    });
    let platforms =
        platforms.iter().map(|(name, reasons)| json!({ "platform": name, "reasons": rows(reasons) }));
    json!({
        "why": cause.to_string(),
        "at_s": how_far.at.as_secs_f64(),
        "n_ended": how_far.n_ended,
        "n_tasks": how_far.n_tasks,
        "waiting": waiting.collect::<Vec<_>>(),
        "platforms": platforms.collect::<Vec<_>>(),
    })
}

/// Layers and their words.
pub(super) fn policies_json(policies: Policies) -> Value {
    let pairs = policies::pairs(policies).into_iter();
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
