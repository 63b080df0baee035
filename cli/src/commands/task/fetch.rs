//! `pilotfish fetch`: brings home the files that tasks have left.

use std::path::PathBuf;

use clap::Args;

use protocol::job::JobSpec;
use scheduler::ids::JobId;

use crate::{
    client::Client,
    failure::{Failure, Outcome},
    landing::Landing,
    select::{JobSelector, Target},
    show,
    staging::{self, Claims, Fetched},
    sys::interrupts::unless_interrupted,
    view::{Reader, ViewArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish fetch 3
  mkdir look && pilotfish fetch 3.17 --to look
  pilotfish fetch last --overwrite

Files are written where the job's `outputs` say, below the folder it was
submitted from; those of other users' jobs only to a folder that --to names. A
file is written whole or not at all. It replaces one that Pilotfish wrote
earlier; one that was there before, or was changed, only with --overwrite.
Nothing is written through links.";

/// Of which job or task, and where to.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct FetchArgs {
    /// Which: 3, last, or 3.17
    #[arg(value_name = "JOB[.TASK]")]
    what: String,
    /// Write below this folder, which is there, instead of the one that the job was submitted from
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Replace files that Pilotfish did not write, or that were changed since
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Fetches.
///
/// # Errors
/// No such job, no manager, or a file that cannot be had or written.
pub async fn run(args: FetchArgs) -> Result<Outcome, Failure> {
    let target = Target::parse(&args.what)?;
    let task = target.tasks.is_some().then(|| target.one_task(&args.what)).transpose()?;
    let reader = Reader::open(&args.view.place).await?;
    let client = &reader.client;
    let jobs = match task {
        // All that was submitted at once has come home when this is over.
        None if target.jobs == JobSelector::Last => target.jobs.resolve_whole(client).await?,
        _ => vec![target.resolve_one(client).await?],
    };
    let (claims, mut all) = (Claims::default(), Vec::new());
    for job in jobs {
        let spec = client.spec(job).await?;
        let folder = match &args.to {
            Some(folder) => folder.clone(),
            None => own_folder(client, job, &spec).await?,
        };
        if !folder.is_dir() {
            let shown = folder.display();
            return Err(Failure::bad_input(format!(
                "there is no folder `{shown}`; make it, or name another with --to"
            )));
        }
        let landing = Landing::open(&folder, args.overwrite);
        let landing = landing.map_err(|error| Failure::file("open", &folder, &error))?;
        let fetching = staging::fetch(client, (job, &spec), task, (landing, &claims));
        let again = "no longer fetching; what has come stays, and the same command brings the rest";
        // Files that have not come whole are removed.
        let Some(fetched) = unless_interrupted(fetching, again).await? else {
            return Ok(Outcome::Interrupted);
        };
        if !args.view.json && !args.view.quiet {
            show::print(&format!("{}\n", staging::line(&fetched, &folder)))?;
        }
        staging::warn_of_left_out(&fetched);
        all.push(fetched);
    }
    if args.view.json {
        show::print(&match &all[..] {
            [fetched] => show::json(fetched)?,
            several => show::json(&several)?,
        })?;
    }
    all.iter().try_for_each(Fetched::whole)?;
    Ok(Outcome::Fine)
}

/// The folder that a job was submitted from. Another user's job must not say where files go here.
async fn own_folder(client: &Client, job: JobId, spec: &JobSpec) -> Result<PathBuf, Failure> {
    let (own, user) = (&client.access().user, client.job(job).await?.user);
    if *own != user {
        return Err(Failure::bad_input(format!(
            "job {job} is {user}'s; name a folder for its files with --to"
        )));
    }
    Ok(spec.base_dir.clone())
}
