//! `pilotfish job`: one job in full.

pub(crate) mod cancel;
pub(crate) mod change;
pub(crate) mod jobs;
pub(crate) mod pause;
pub(crate) mod purge;
pub(crate) mod resume;
pub(crate) mod retry_failed;
pub(crate) mod wait;

use clap::Args;

use crate::{
    failure::{Failure, Outcome},
    select::JobSelector,
    show::{self, Screen, job, units::json_with_units},
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish job 3
  pilotfish job last --watch
  pilotfish job last --spec      the job as it was submitted";

/// Which job, and how it is shown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct JobArgs {
    /// Which: a number, 1-10, 1,4-6, last or all
    #[arg(value_name = "JOB")]
    job: String,
    /// Print the job as it was submitted, as JSON
    #[arg(long, conflicts_with = "quiet")]
    spec: bool,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Shows jobs.
///
/// # Errors
/// No such job, or no manager and no store.
pub async fn run(args: JobArgs) -> Result<Outcome, Failure> {
    let selector = JobSelector::parse(&args.job)?;
    let reader = Reader::open(&args.view.place).await?;
    let client = &reader.client;
    if args.spec {
        let job = selector.resolve_one(client).await?;
        show::print(&show::json(&client.spec(job).await?)?)?;
        return Ok(Outcome::Fine);
    }
    let view = async |screen: &Screen| {
        let jobs = selector.views(client).await?;
        if args.view.json {
            return match &jobs[..] {
                [only] => json_with_units(only),
                several => json_with_units(&several.to_vec()),
            };
        }
        if args.view.quiet {
            return Ok(jobs.iter().map(|job| format!("{}\n", job.state)).collect());
        }
        let shown: Vec<String> = jobs.iter().map(|view| job::facts(view).render(screen)).collect();
        Ok(shown.join("\n"))
    };
    args.watch.show(view).await
}
