//! `pilotfish check`: whether a job is right, and what it would run. Needs no manager.

use std::ops::Range;

use clap::Args;

use protocol::job::Compiled;

use crate::{
    commands::workflow,
    failure::{Failure, Outcome},
    input::JobInput,
    show::{self, Screen, format::count, preview},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish check job.yaml
  pilotfish check job.yaml --task 999999
  pilotfish check -- gzip -k {} ::: *.txt

The job has no number yet: {job} is shown as 0.";

/// Which job, and which of its tasks.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(
    override_usage = "pilotfish check [OPTIONS] JOB.yaml\n       pilotfish check [OPTIONS] -- COMMAND [::: VALUES]"
)]
pub struct CheckArgs {
    #[command(flatten)]
    input: JobInput,
    /// Show this task
    #[arg(long, value_name = "INDEX", allow_negative_numbers = true, conflicts_with = "limit")]
    task: Option<u64>,
    /// Show this many of the first tasks
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 3)]
    limit: u64,
    /// Show JSON, for programs
    #[arg(long)]
    json: bool,
    /// Show nothing when all is well
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// Checks.
///
/// # Errors
/// Everything that is wrong with the job, a line each.
pub fn run(args: CheckArgs) -> Result<Outcome, Failure> {
    let tell = |left_out: Option<String>| left_out.iter().for_each(|line| show::say(line));
    if let Some(workflow) = args.input.workflow()? {
        tell(JobInput::left_out(workflow.stages.iter().map(|stage| &stage.job)));
        return if args.quiet { Ok(Outcome::Fine) } else { workflow::preview(&workflow, args.json) };
    }
    let job = args.input.resolve_for_others()?.compile()?;
    tell(JobInput::left_out([job.spec()]));
    for doubt in args.input.doubts(&job) {
        show::say(&format!("warning: {doubt}"));
    }
    let indices = indices(&job, args.task, args.limit)?;
    if args.json {
        show::print(&show::json(&preview::json(&job, indices))?)?;
    } else if !args.quiet {
        show::print(&preview::text(&job, indices, &Screen::stdout()))?;
    }
    Ok(Outcome::Fine)
}

fn indices(job: &Compiled, task: Option<u64>, limit: u64) -> Result<Range<u64>, Failure> {
    let n_tasks = job.n_tasks();
    match task {
        None => Ok(0..limit.min(n_tasks)),
        Some(index) if index < n_tasks => Ok(index..index + 1),
        Some(index) => {
            let last = count(n_tasks.saturating_sub(1));
            Err(Failure::bad_input(format!("--task: found {index}; the tasks are 0 to {last}")))
        }
    }
}
