//! `pilotfish cancel`. Cancels jobs or tasks: what runs is killed, what waits is forgotten.

use clap::Args;

use crate::{
    commands::job::change::{self, Change},
    failure::{Failure, Outcome},
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish cancel 3
  pilotfish cancel 3.0-9,17     only these tasks
  pilotfish cancel all";

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CancelArgs {
    /// Which: 3, 1-10, last, all, or tasks like 3.0-9
    #[arg(value_name = "JOB[.TASKS]", required = true)]
    jobs: Vec<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Cancels.
///
/// # Errors
/// A wrong selector, a refusal, or no manager.
pub async fn run(args: CancelArgs) -> Result<Outcome, Failure> {
    change::change(&args.jobs, &args.view, Change::Cancel).await
}
