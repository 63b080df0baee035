//! `pilotfish purge`. Removes jobs that are over, with what their tasks have left in the manager.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use protocol::text::units::parse_duration_ms;
use scheduler::{engine::interface::views::JobView, ids::JobId, time::Span};
use serde::Serialize;

use crate::{
    access,
    client::{Client, ClientError},
    commands::job::change,
    failure::{Failure, Outcome},
    select::JobSelector,
    show::{self, format::counted},
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish purge 3
  pilotfish purge 1-40
  pilotfish purge all --older-than 30d   your jobs that ended so long ago

Only jobs that are over are removed, and only what the manager keeps of them:
results, what tasks wrote, and their output files there. What was fetched or
exported before stays, and so does what was learned of applications. A job from
which another one takes files can only be removed with that one, or after it.
It cannot be undone. A manager must be running: `pilotfish serve --dir .pilotfish`
starts one for the jobs of a `run`, and `pilotfish stop` ends it.";

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PurgeArgs {
    /// Which: 3, 1-10, last, or all of yours that are over
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// Only those that ended so long ago, like 30d
    #[arg(long, value_name = "DURATION")]
    older_than: Option<String>,
    /// With `all`: those of all users; for operators
    #[arg(long)]
    all_users: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// A job that was purged.
#[derive(Serialize)]
struct Row {
    job: JobId,
    name: String,
    n_tasks: u64,
}

/// Purges. All that is purged is said, whatever is refused.
///
/// # Errors
/// A wrong selector or duration, a refusal, or no manager.
pub async fn run(args: PurgeArgs) -> Result<Outcome, Failure> {
    change::refuse_tasks(&args.jobs, "purged")?;
    let selectors: Vec<JobSelector> =
        args.jobs.iter().map(|text| JobSelector::parse(text)).collect::<Result<_, _>>()?;
    if args.all_users && !selectors.contains(&JobSelector::All) {
        return Err(Failure::bad_input("--all-users goes with `all`"));
    }
    let older_than = match &args.older_than {
        None => Span::ZERO,
        Some(text) => parse_duration_ms(text)
            .map(Span::from_millis)
            .map_err(|error| Failure::bad_input(format!("--older-than: found `{text}`; {error}")))?,
    };
    let client = access::find_for_change(&args.view.place).await?;
    let (jobs, mut meant) = (client.jobs().await?, BTreeMap::new());
    for selector in selectors {
        let is_own = |job: &JobView| args.all_users || job.user == client.user();
        let is_meant =
            |job: &JobView| selector != JobSelector::All || (job.ended_at.is_some() && is_own(job));
        let is_due = |job: &JobView| job.ended_at.is_none_or(|ended| job.now.since(ended) >= older_than);
        let ids: BTreeSet<JobId> = selector.resolve_whole(&client).await?.into_iter().collect();
        let chosen = jobs.iter().filter(|job| ids.contains(&job.id) && is_meant(job) && is_due(job));
        meant.extend(chosen.map(|job| (job.id, job.clone())));
    }
    let (purged, refused) = purge(&client, meant).await;
    if args.view.json {
        show::print(&show::json(&purged)?)?;
    } else if !args.view.quiet {
        let line =
            |row: &Row| format!("job {} purged: {}, {}\n", row.job, row.name, counted(row.n_tasks, "task"));
        show::print(&purged.iter().map(line).collect::<String>())?;
    }
    if purged.is_empty() && refused.is_ok() && !args.view.json && !args.view.quiet {
        show::say("nothing was purged: no job of those is over, or for long enough");
    }
    refused.map(|()| Outcome::Fine)
}

/// Purges jobs, each as soon as no other one needs it. Says which are gone, and why the others are not.
async fn purge(client: &Client, mut meant: BTreeMap<JobId, JobView>) -> (Vec<Row>, Result<(), Failure>) {
    let mut purged = Vec::new();
    loop {
        let (n_before, mut refusals) = (purged.len(), Vec::new());
        // Later ones take from earlier ones, mostly.
        for id in meant.keys().copied().rev().collect::<Vec<_>>() {
            // Only stages of one file can wait for each other.
            let is_stage = |job: &&JobView| {
                job.workflow.is_some() && job.workflow == meant.get(&id).and_then(|job| job.workflow)
            };
            let with = meant.values().filter(is_stage).map(|job| job.id).collect();
            match client.purge(id, with).await {
                // It was purged together with another one that takes from it and from which it takes.
                Ok(_) | Err(ClientError::Refused { status: reqwest::StatusCode::NOT_FOUND, .. }) => {
                    let JobView { id: job, name, counts, .. } = match meant.remove(&id) {
                        Some(view) => view,
                        None => continue,
                    };
                    purged.push(Row { job, name, n_tasks: counts.total });
                }
                Err(error) => match Failure::from(error) {
                    Failure::BadInput(lines) => refusals.extend(lines),
                    failure => return (purged, Err(failure)),
                },
            }
        }
        if refusals.is_empty() {
            return (purged, Ok(()));
        }
        if purged.len() == n_before {
            return (purged, Err(Failure::BadInput(refusals)));
        }
    }
}
