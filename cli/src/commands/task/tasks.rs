//! `pilotfish tasks`: the tasks of a job in a table, page by page.

use clap::{Args, ValueEnum};

use protocol::api::TaskRow;
use scheduler::{engine::interface::TaskFilter, ids::JobId, ranges::TaskSet};

use crate::{
    client::{Client, Page},
    failure::{Failure, Outcome},
    select::Target,
    show::{
        Ink, Screen,
        format::{bytes, count, counted, span},
        table::{Cell, Side, Table},
        units::json_with_units,
        words,
    },
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish tasks 3
  pilotfish tasks last --failed
  pilotfish tasks 3.0-9,17                 only these tasks
  pilotfish tasks 3 --from 1000 --limit 20 --json
  pilotfish tasks 3 --state failed -q      the numbers only, like 3.17";

/// Rows asked for at a time.
const PAGE_ROWS: u64 = 1000;
/// Rows of a table before people lose the overview.
const LIMIT_DEFAULT: u64 = 100;

/// Tasks that are named below a table at most.
const N_NAMED: usize = 10;

/// Which tasks, and how they are shown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TasksArgs {
    /// Of which job, and which of its tasks: 3, last, 3.17 or 3.0-9
    #[arg(value_name = "JOB[.TASKS]")]
    target: String,
    /// Only those in this state
    #[arg(long, value_enum, default_value = "all")]
    state: StateArg,
    /// Only those that failed for good; the same as --state failed
    #[arg(long, conflicts_with = "state")]
    failed: bool,
    /// Begin with this index
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    from: u64,
    /// At most this many (0: all)
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT)]
    limit: u64,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// States of tasks, as flags name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateArg {
    /// Every task
    All,
    /// Not held by any pilot
    Waiting,
    /// Held by a pilot, not begun
    Queued,
    /// Begun
    Running,
    /// Succeeded
    Done,
    /// Failed for good
    Failed,
    /// Cancelled
    Cancelled,
}

impl From<StateArg> for TaskFilter {
    fn from(state: StateArg) -> TaskFilter {
        match state {
            StateArg::All => TaskFilter::All,
            StateArg::Waiting => TaskFilter::Waiting,
            StateArg::Queued => TaskFilter::Queued,
            StateArg::Running => TaskFilter::Running,
            StateArg::Done => TaskFilter::Done,
            StateArg::Failed => TaskFilter::Failed,
            StateArg::Cancelled => TaskFilter::Cancelled,
        }
    }
}

/// Lists tasks.
///
/// # Errors
/// No such job, or no manager and no store.
pub async fn run(args: TasksArgs) -> Result<Outcome, Failure> {
    let target = Target::parse(&args.target)?;
    let reader = Reader::open(&args.view.place).await?;
    let job = target.resolve_one(&reader.client).await?;
    let wanted = target.tasks.unwrap_or_else(|| TaskSet::from(0..u64::MAX));
    let view = async |screen: &Screen| {
        let (rows, next) = rows(&args, &reader.client, job, &wanted).await?;
        if args.view.json {
            return json_with_units(&rows);
        }
        if args.view.quiet {
            return Ok(rows.iter().map(|row| format!("{job}.{}\n", row.index)).collect());
        }
        let mut text = table(&rows).render_or(&none_text(&args), screen);
        if let Some(line) = cut_line(&rows) {
            text.push_str(&screen.paint(Ink::Dim, &line));
            text.push('\n');
        }
        if let Some(next) = next {
            let line = format!("… more from {}: --from {next}, or --limit 0 for all", count(next));
            text.push_str(&screen.paint(Ink::Dim, &line));
            text.push('\n');
        }
        Ok(text)
    };
    args.watch.show(view).await
}

/// What is said where no task is as wanted: the job may have others.
fn none_text(args: &TasksArgs) -> String {
    let state = if args.failed { StateArg::Failed } else { args.state };
    let word = match state.to_possible_value() {
        Some(value) if state != StateArg::All => format!("{} ", value.get_name()),
        Some(_) | None => String::new(),
    };
    let from = if args.from > 0 { format!(" from {} on", count(args.from)) } else { String::new() };
    format!("no {word}tasks{from}")
}

/// The rows asked for, and where the next ones begin.
async fn rows(
    args: &TasksArgs,
    client: &Client,
    job: JobId,
    wanted: &TaskSet,
) -> Result<(Vec<TaskRow>, Option<u64>), Failure> {
    let limit = if args.limit == 0 { u64::MAX } else { args.limit };
    let state = if args.failed { TaskFilter::Failed } else { args.state.into() };
    let mut rows: Vec<TaskRow> = Vec::new();
    for range in wanted.iter().filter(|range| range.end > args.from) {
        let mut from = range.start.max(args.from);
        while from < range.end {
            let n_wanted = limit - rows.len() as u64;
            if n_wanted == 0 {
                return Ok((rows, Some(from)));
            }
            let n_asked = n_wanted.min(PAGE_ROWS).min(range.end - from);
            let answer = client.tasks(job, Page { state, from, limit: n_asked, with_extracts: true }).await?;
            rows.extend(answer.tasks.into_iter().filter(|row| row.index < range.end));
            match answer.next {
                Some(next) if next > from => from = next,
                Some(_) | None => break,
            }
        }
    }
    Ok((rows, None))
}

/// Which tasks wrote more than is kept, if any did.
fn cut_line(rows: &[TaskRow]) -> Option<String> {
    let cut: Vec<String> =
        rows.iter().filter(|row| row.output_cut).map(|row| row.index.to_string()).collect();
    let (n_cut, named) = (cut.len(), cut.get(..N_NAMED.min(cut.len()))?.join(", "));
    let more = if n_cut > N_NAMED { ", …" } else { "" };
    (n_cut > 0).then(|| {
        format!(
            "{} here wrote more than is kept (results.limit): values of results.extract may be missing from {} ({named}{more})",
            counted(n_cut as u64, "task"),
            if n_cut == 1 { "it" } else { "them" }
        )
    })
}

/// Whether the program of a task's last attempt began: one that did not has no times.
pub(in crate::commands) fn has_begun(row: &TaskRow) -> bool {
    row.started_at.is_some() || row.wall.is_some_and(|wall| wall.0 > 0)
}

fn table(rows: &[TaskRow]) -> Table {
    let mut table = Table::new(&[">TASK", "STATE", ">TRY", ">EXIT", ">TIME", ">CPU", ">MEMORY"]);
    let parameters = rows.first().map(|row| row.parameters.as_slice()).unwrap_or_default();
    for (name, _) in parameters {
        table.column(name.as_str(), Side::Left);
    }
    let extracts: Vec<&String> = rows.first().map(|row| row.extracted.keys().collect()).unwrap_or_default();
    for name in &extracts {
        table.column(name.as_str(), Side::Right);
    }
    let has_failures = rows.iter().any(|row| row.failure.is_some());
    if has_failures {
        table.column("WHY", Side::Left);
    }
    for row in rows {
        let text = |value: Option<String>| Cell::from(value.unwrap_or_default());
        let mut cells = vec![
            row.index.to_string().into(),
            words::task_state(row.state),
            text((row.attempt > 0).then(|| row.attempt.to_string())),
            text(row.exit_code.map(|code| code.to_string())),
            text(row.wall.filter(|_| has_begun(row)).map(span)),
            text(row.cpu.filter(|_| has_begun(row)).map(span)),
            text(row.memory_bytes.filter(|n| *n > 0).map(bytes)),
        ];
        cells.extend(row.parameters.iter().map(|(_, value)| Cell::from(value.as_str())));
        cells.extend(extracts.iter().map(|name| text(row.extracted.get(*name).cloned().flatten())));
        if has_failures {
            cells.push(text(row.failure.as_ref().map(|failure| failure.text.clone())));
        }
        table.row(cells);
    }
    table
}
