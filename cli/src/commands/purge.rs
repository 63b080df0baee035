//! `pilotfish purge`. Removes jobs that are over, with what their tasks have left in the manager.

use clap::Args;
use protocol::units::parse_duration_ms;
use scheduler::time::Span;

use crate::{
    commands::change::{self, Change},
    failure::{Failure, Outcome},
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish purge 3
  pilotfish purge 1-40
  pilotfish purge all --older-than 30d   of all jobs, those that ended so long ago

Only jobs that are over are removed, and only what the manager keeps of them:
results, what tasks wrote, and their output files there. What was fetched or
exported before stays, and so does what was learned of applications. A job from
which another one takes files is removed after that one; of `7-9` the last goes
first. It cannot be undone.";

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PurgeArgs {
    /// Which: 3, 1-10, last or all (that are over)
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// Only those that ended so long ago, like 30d
    #[arg(long, value_name = "DURATION")]
    older_than: Option<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Purges.
///
/// # Errors
/// A wrong selector or duration, a refusal, or no manager.
pub async fn run(args: PurgeArgs) -> Result<Outcome, Failure> {
    change::refuse_tasks(&args.jobs, "purged")?;
    let older_than = match &args.older_than {
        None => Span::ZERO,
        Some(text) => parse_duration_ms(text)
            .map(Span::from_millis)
            .map_err(|error| Failure::bad_input(format!("--older-than: found `{text}`; {error}")))?,
    };
    change::change(&args.jobs, &args.view, Change::Purge { older_than }).await
}
