//! `pilotfish task`: one task with its command and all its attempts.

pub(crate) mod fetch;
pub(crate) mod tasks;

use clap::Args;

use protocol::api::{TaskDetail, TaskRow};
use scheduler::{engine::interface::TaskFilter, time::Time};

use crate::commands::task::tasks::has_begun;
use crate::{
    client::state_word,
    failure::{Failure, Outcome},
    select::Target,
    show::{
        self, Screen,
        facts::Facts,
        format::{bytes, clock, span},
        quote,
        units::json_with_units,
    },
    view::{Reader, ViewArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish task 3.17
  pilotfish task last.0 --json";

/// Which task, and how it is shown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TaskArgs {
    /// Which: JOB.INDEX, like 3.17
    #[arg(value_name = "JOB.INDEX")]
    task: String,
    #[command(flatten)]
    view: ViewArgs,
}

/// Shows a task.
///
/// # Errors
/// No such task, or no manager and no store.
pub async fn run(args: TaskArgs) -> Result<Outcome, Failure> {
    Target::parse(&args.task)?;
    let reader = Reader::open(&args.view.place).await?;
    let task = Target::resolve_task(&args.task, &reader.client).await?;
    let detail = reader.client.task(task).await?;
    let text = if args.view.json {
        json_with_units(&detail)?
    } else if args.view.quiet {
        format!("{}\n", state_word(detail.row.state))
    } else {
        facts(&detail).render(&Screen::stdout())
    };
    show::print(&text)?;
    Ok(Outcome::Fine)
}

fn facts(detail: &TaskDetail) -> Facts {
    let row = &detail.row;
    let now = now();
    let mut facts = Facts::default();
    facts.add("task", detail.id.to_string());
    let held = detail.held_by.map(|pilot| format!(", held by pilot {pilot}")).unwrap_or_default();
    let retry = detail.retry_at.map(|at| format!(", tried again at {}", clock(at, now))).unwrap_or_default();
    facts.add("state", format!("{}{held}{retry}", state_word(row.state)));
    facts.add("command", quote::command_line(&detail.command));
    facts.add("in", detail.workdir.clone());
    for (name, value) in &row.parameters {
        // The command has an empty one too, and blanks at the ends.
        let is_visible = !value.is_empty() && value.trim() == value;
        let shown = if is_visible { value.clone() } else { format!("{value:?}") };
        facts.add(format!("  {name}"), shown);
    }
    for (name, value) in &row.extracted {
        facts.add(format!("  {name}"), value.clone().unwrap_or_else(|| "nothing found".to_owned()));
    }
    if row.output_cut {
        let why = "the task wrote more than is kept (results.limit); values that are not certain without the rest are missing";
        facts.add("output", why);
    }
    for failed in &detail.failed_attempts {
        facts.add(format!("attempt {}", failed.attempt), attempt(failed, now));
    }
    let is_listed = detail.failed_attempts.iter().any(|failed| failed.attempt == row.attempt);
    if row.attempt > 0 && !is_listed {
        facts.add(format!("attempt {}", row.attempt), attempt(row, now));
    }
    if row.state == TaskFilter::Cancelled && row.attempt == 0 {
        facts.add("attempts", "cancelled before one ended; the output of one that ran is kept");
    }
    facts
}

/// `done in 3.2s on pilot 1 at 10:45:12, exit code 0, 3.1s CPU, 12.0 MiB`
fn attempt(row: &TaskRow, now: Time) -> String {
    let outcome = match &row.failure {
        Some(failure) => format!("failed: {}", failure.text),
        None => "done".to_owned(),
    };
    let when = match (row.started_at, row.ended_at) {
        (Some(at), _) => Some(format!("began {}", clock(at, now))),
        (None, at) => at.map(|at| format!("known at {}", clock(at, now))),
    };
    let parts = [
        Some(outcome),
        row.wall.filter(|_| has_begun(row)).map(|wall| format!("took {}", span(wall))),
        row.cpu.filter(|_| has_begun(row)).map(|cpu| format!("{} CPU", span(cpu))),
        row.memory_bytes.filter(|n| *n > 0).map(bytes),
        row.pilot.map(|pilot| format!("pilot {pilot}")),
        when,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Only to leave the date out where it is today's.
fn now() -> Time {
    Time(u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0))
}
