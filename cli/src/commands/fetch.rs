//! `pilotfish fetch`: brings home the files that tasks have left.

use std::path::PathBuf;

use clap::Args;

use scheduler::ids::JobId;

use crate::{
    failure::{Failure, Outcome},
    select::Target,
    show, staging,
    view::{Reader, ViewArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish fetch 3
  pilotfish fetch 3.17 --to /tmp/look
  pilotfish fetch last

Files come to where the job's `outputs` say, below the folder it was submitted
from. A file is written whole or not at all, and one that is there already and
is the same is left as it is.";

/// Of which job or task, and where to.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct FetchArgs {
    /// Which: 3, last, or 3.17
    #[arg(value_name = "JOB[.TASK]")]
    what: String,
    /// Below this folder and not the one that the job was submitted from
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Fetches.
///
/// # Errors
/// No such job, no manager, or a file that cannot be had or written.
pub async fn run(args: FetchArgs) -> Result<Outcome, Failure> {
    Target::parse(&args.what)?;
    let reader = Reader::open(&args.view.place).await?;
    let client = &reader.client;
    let (job, task): (JobId, Option<u64>) = match args.what.contains('.') {
        true => {
            let task = Target::resolve_task(&args.what, client).await?;
            (task.job, Some(task.index))
        }
        false => {
            let jobs = Target::parse(&args.what)?.jobs.resolve(client).await?;
            match jobs[..] {
                [job] => (job, None),
                _ => return Err(Failure::bad_input(format!("found {} jobs; fetch one", jobs.len()))),
            }
        }
    };
    let folder = match args.to {
        Some(folder) => folder,
        None => client.spec(job).await?.base_dir,
    };
    if !folder.is_dir() {
        let shown = folder.display();
        return Err(Failure::bad_input(format!(
            "found no folder {shown}; make it, or name another with --to"
        )));
    }
    let fetched = staging::fetch(client, job, task, &folder).await?;
    if args.view.json {
        show::print(&show::json(&fetched)?)?;
    } else if !args.view.quiet {
        show::print(&format!("{}\n", staging::line(&fetched, &folder)))?;
    }
    staging::warn_of_left_out(&fetched);
    Ok(Outcome::Fine)
}
