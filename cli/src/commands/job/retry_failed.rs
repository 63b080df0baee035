//! `pilotfish retry-failed`. Opens failed tasks again, with all their retries; named tasks also when they were cancelled.

use clap::Args;

use crate::{
    commands::job::change::{self, Change},
    failure::{Failure, Outcome},
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish retry-failed 3
  pilotfish retry-failed 3.17
  pilotfish retry-failed all";

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RetryFailedArgs {
    /// Which: 3, 1-10, last, all, or tasks like 3.17
    #[arg(value_name = "JOB[.TASKS]", required = true)]
    jobs: Vec<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Retries.
///
/// # Errors
/// A wrong selector, a refusal, or no manager.
pub async fn run(args: RetryFailedArgs) -> Result<Outcome, Failure> {
    change::change(&args.jobs, &args.view, Change::Retry).await
}
