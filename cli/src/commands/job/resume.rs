//! `pilotfish resume`. Lets paused jobs go on.

use clap::Args;

use crate::{
    commands::job::change::{self, Change},
    failure::{Failure, Outcome},
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish resume 3
  pilotfish resume all";

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ResumeArgs {
    /// Which: 3, 1-10, last or all
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Resumes.
///
/// # Errors
/// A wrong selector, a refusal, or no manager.
pub async fn run(args: ResumeArgs) -> Result<Outcome, Failure> {
    change::refuse_tasks(&args.jobs, "resumed")?;
    change::change(&args.jobs, &args.view, Change::Resume).await
}
