//! `pilotfish logs`: what tasks wrote.

mod feed;
mod follow;

use std::{
    collections::BTreeSet,
    io::{IsTerminal, Write},
};

use clap::Args;

use protocol::{api::OutputRow, follow::TaskRange};
use scheduler::{
    engine::interface::{TaskFilter, views::JobView},
    ids::{JobId, TaskId},
    ranges::TaskSet,
};

use self::follow::What;
use crate::{
    client::{Client, OutputStream},
    failure::{Failure, Outcome},
    select::Target,
    show::{
        Ink, Screen,
        format::counted,
        harmless::{harmless, harmless_output},
        job::warn_of_lost_output,
    },
    view::{Reader, ViewArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish logs 3                    of all tasks, with headings
  pilotfish logs 3.17                 of one task, without headings
  pilotfish logs last --failed --stderr
  pilotfish logs 3 --follow           as it comes, until the job is over
  pilotfish logs 3 --stdout --raw     byte for byte, for other programs

On a terminal, control characters in output are shown as ^[ and the like;
--raw prints them unchanged.";

/// Of which tasks, and what.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LogsArgs {
    /// Of which job or tasks: 3, last, 3.17 or 3.0-9
    #[arg(value_name = "JOB[.TASKS]")]
    target: String,
    /// Standard output only
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Standard error only
    #[arg(long)]
    stderr: bool,
    /// Only of tasks that failed
    #[arg(long)]
    failed: bool,
    /// Print bytes unchanged, without headings and without task numbers before lines
    #[arg(long)]
    raw: bool,
    /// Go on with new output, of running tasks too, until all is over; with --json one value per line
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Prints outputs, as they come from the manager.
///
/// # Errors
/// No such job or task, or no manager and no store.
pub async fn run(args: LogsArgs) -> Result<Outcome, Failure> {
    let target = Target::parse(&args.target)?;
    let reader = Reader::open(&args.view.place).await?;
    let client = &reader.client;
    let job = target.resolve_one(client).await?;
    if args.follow {
        return follow::follow(&reader, &What { job, tasks: target.tasks }, &args).await;
    }
    let single = target.tasks.as_ref().filter(|tasks| tasks.len() == 1).and_then(TaskSet::first);
    match single {
        Some(index) if !args.view.json && !args.failed => {
            one(client, TaskId { job, index }, &args).await?;
        }
        _ => many(client, job, target.tasks.as_ref(), &args).await?,
    }
    Ok(Outcome::Fine)
}

/// One task: its bytes as they are, each stream where it belongs. On a terminal control sequences are harmless
/// unless they are wanted.
async fn one(client: &Client, task: TaskId, args: &LogsArgs) -> Result<(), Failure> {
    if !args.stderr {
        let bytes = client.output(task, OutputStream::Stdout).await?;
        write_output(std::io::stdout().lock(), &bytes, args)?;
    }
    if !args.stdout {
        let bytes = client.output(task, OutputStream::Stderr).await?;
        match args.stderr {
            true => write_output(std::io::stdout().lock(), &bytes, args)?,
            false => write_output(std::io::stderr().lock(), &bytes, args)?,
        }
    }
    Ok(())
}

/// Writes what tasks wrote: byte for byte, but to a terminal without control sequences unless `--raw` is given.
fn write_output(mut to: impl Write + IsTerminal, bytes: &[u8], args: &LogsArgs) -> std::io::Result<()> {
    if to.is_terminal() && !args.raw {
        let (shown, begun) = harmless_output(bytes);
        to.write_all(shown.as_bytes())?;
        to.write_all(harmless(String::from_utf8_lossy(begun).trim_end_matches('\r')).as_bytes())?;
    } else {
        to.write_all(bytes)?;
    }
    to.flush()
}

/// Many tasks: page by page, in order, with headings.
async fn many(client: &Client, job: JobId, tasks: Option<&TaskSet>, args: &LogsArgs) -> Result<(), Failure> {
    let state = if args.failed { TaskFilter::Failed } else { TaskFilter::All };
    let screen = Screen::stdout();
    let mut printer = Printer { args, damaged: BTreeSet::new(), screen, n_shown: 0, is_at_line_start: true };
    let mut from = tasks.and_then(TaskSet::first).unwrap_or(0);
    let last = tasks.and_then(|tasks| tasks.iter().last()).map_or(u64::MAX, |range| range.end - 1);
    printer.begin()?;
    loop {
        let page = client.outputs(job, state, from).await?;
        printer.damage(job, &page.damaged);
        for row in &page.outputs {
            if tasks.is_none_or(|tasks| tasks.contains(row.index)) {
                printer.row(job, row)?;
            }
        }
        match page.next {
            Some(next) if next > from && next <= last => from = next,
            _ => break,
        }
    }
    let view = client.job(job).await?;
    printer.end(&view)?;
    tell_budget(&view, args);
    tell_running(&view, args);
    Ok(())
}

/// Says why output of some tasks may be missing.
fn tell_budget(job: &JobView, args: &LogsArgs) {
    if !args.view.quiet {
        warn_of_lost_output(job);
    }
}

/// Says how to see what is not told of yet.
fn tell_running(job: &JobView, args: &LogsArgs) {
    let (id, n_running) = (job.id, job.counts.running);
    if n_running > 0 && !args.view.quiet && !args.failed {
        let running = counted(n_running, "running task");
        crate::show::say(&format!(
            "of {running} nothing is shown: `pilotfish logs {id} --follow` shows what they write"
        ));
    }
}

/// That something is damaged in the store.
fn damage_line(job: JobId, TaskRange { first, last }: &TaskRange) -> String {
    let tasks =
        if first == last { format!("task {job}.{first}") } else { format!("tasks {job}.{first}-{last}") };
    format!("output of {tasks} is damaged in the store and left out: a checksum is wrong")
}

struct Printer<'a> {
    args: &'a LogsArgs,
    damaged: BTreeSet<TaskRange>,
    screen: Screen,
    n_shown: u64,
    is_at_line_start: bool,
}

impl Printer<'_> {
    fn begin(&mut self) -> Result<(), Failure> {
        if self.args.view.json { crate::show::print("[") } else { Ok(()) }
    }

    /// Says once of each what is left out.
    fn damage(&mut self, job: JobId, damaged: &[TaskRange]) {
        for range in damaged {
            if self.damaged.insert(*range) {
                crate::show::say(&damage_line(job, range));
            }
        }
    }

    fn row(&mut self, job: JobId, row: &OutputRow) -> Result<(), Failure> {
        if self.args.view.json {
            let comma = if self.n_shown > 0 { "," } else { "" };
            self.n_shown += 1;
            let text = crate::show::json(row)?;
            return crate::show::print(&format!("{comma}\n{}", text.trim_end()));
        }
        let streams = [
            (OutputStream::Stdout, row.stdout_bytes(), !self.args.stderr),
            (OutputStream::Stderr, row.stderr_bytes(), !self.args.stdout),
        ];
        for (stream, bytes, is_wanted) in streams {
            if is_wanted && !bytes.is_empty() {
                self.output(&format!("{job}.{} {}", row.index, stream.word()), &bytes)?;
            }
        }
        Ok(())
    }

    fn output(&mut self, heading: &str, bytes: &[u8]) -> Result<(), Failure> {
        let mut shown = String::new();
        if !self.args.raw && !self.args.view.quiet {
            if !self.is_at_line_start {
                shown.push('\n');
            }
            shown.push_str(&self.screen.paint(Ink::Bold, &format!("==> {heading} <==")));
            shown.push('\n');
        }
        crate::show::print(&shown)?;
        write_output(std::io::stdout().lock(), bytes, self.args)?;
        self.is_at_line_start = bytes.ends_with(b"\n");
        self.n_shown += 1;
        Ok(())
    }

    fn end(&mut self, job: &JobView) -> Result<(), Failure> {
        if self.args.view.json {
            return crate::show::print(if self.n_shown > 0 { "\n]\n" } else { "]\n" });
        }
        if !self.is_at_line_start && self.screen.is_terminal && !self.args.raw {
            crate::show::print("\n")?;
        }
        if self.n_shown == 0 && !self.args.view.quiet {
            let id = job.id;
            crate::show::say(&match (self.args.failed, job.counts.failed) {
                (true, 0) => format!("no task of job {id} has failed"),
                (true, _) => format!("the failed tasks of job {id} left no such output"),
                (false, _) => format!("job {id} has kept no such output"),
            });
        }
        Ok(())
    }
}
