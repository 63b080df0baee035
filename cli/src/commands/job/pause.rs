//! `pilotfish pause`. Pauses jobs: nothing more begins, what runs may end.

use clap::Args;

use crate::{
    commands::job::change::{self, Change},
    failure::{Failure, Outcome},
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish pause 3
  pilotfish pause all";

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PauseArgs {
    /// Which: 3, 1-10, last or all
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Pauses.
///
/// # Errors
/// A wrong selector, a refusal, or no manager.
pub async fn run(args: PauseArgs) -> Result<Outcome, Failure> {
    change::refuse_tasks(&args.jobs, "paused")?;
    change::change(&args.jobs, &args.view, Change::Pause).await
}
