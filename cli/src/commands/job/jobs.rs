//! `pilotfish jobs`: all jobs in a table.

use std::collections::BTreeSet;

use clap::Args;

use scheduler::{engine::interface::views::JobView, ids::JobId};

use crate::{
    failure::{Failure, Outcome},
    select::JobSelector,
    show::{
        Screen,
        format::{age, count, span},
        table::Table,
        units::json_with_units,
        words,
    },
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish jobs
  pilotfish jobs --active --watch
  pilotfish jobs 3-7 --json";

/// Which jobs, and how they are shown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct JobsArgs {
    /// Which: a number, 1-10, 1,4-6, last or all
    #[arg(value_name = "JOBS", default_value = "all")]
    jobs: String,
    /// Only those that are not over
    #[arg(short, long)]
    active: bool,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Lists jobs.
///
/// # Errors
/// A wrong selector, or no manager and no store.
pub async fn run(args: JobsArgs) -> Result<Outcome, Failure> {
    let selector = JobSelector::parse(&args.jobs)?;
    let reader = Reader::open(&args.view.place).await?;
    let view = async |screen: &Screen| {
        let mut jobs = reader.client.jobs().await?;
        let chosen: BTreeSet<JobId> = selector.among(&jobs, &reader.client)?.into_iter().collect();
        jobs.retain(|job| chosen.contains(&job.id) && (!args.active || job.ended_at.is_none()));
        if args.view.json {
            return json_with_units(&jobs);
        }
        if args.view.quiet {
            return Ok(jobs.iter().map(|job| format!("{}\n", job.id)).collect());
        }
        Ok(table(&jobs).render_or("no jobs", screen))
    };
    args.watch.show(view).await
}

fn table(jobs: &[JobView]) -> Table {
    let users: BTreeSet<&str> = jobs.iter().map(|job| job.user.as_str()).collect();
    let mut titles =
        vec![">JOB", "NAME", "STATE", ">TASKS", ">DONE", ">RUNNING", ">FAILED", ">PER TASK", ">AGE"];
    if users.len() > 1 {
        titles.push("USER");
    }
    let mut table = Table::new(&titles);
    for job in jobs {
        let counts = &job.counts;
        let mut row = vec![
            job.id.to_string().into(),
            job.name.clone().into(),
            words::state(&job.state),
            count(counts.total).into(),
            count(counts.done).into(),
            count(counts.running).into(),
            words::failures(counts.failed),
            job.wall_mean.map(span).unwrap_or_default().into(),
            age(job.now, job.submitted_at).into(),
        ];
        if users.len() > 1 {
            row.push(job.user.clone().into());
        }
        table.row(row);
    }
    table
}
