//! `pilotfish wait`: until jobs are over.

use std::time::Duration;

use clap::Args;

use protocol::text::units::parse_duration_ms;
use scheduler::{engine::interface::views::JobView, ids::JobId};

use crate::{
    client::Client,
    commands::explain,
    failure::{Failure, Outcome},
    follow::follow,
    progress::{Progress, Verbosity, Voice},
    select::{JobSelector, views_of},
    show::{
        self,
        format::count,
        job::{end_line, warn_of_lost_output},
        units::json_with_units,
    },
    sys::interrupts::unless_interrupted,
    view::{Reader, ViewArgs},
};

/// When the time is up, nobody waits much longer for numbers.
const LAST_LOOK_LIMIT: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  pilotfish wait 3
  pilotfish wait 1-4 --progress
  pilotfish wait last --timeout 1h

Exit codes: 0 all tasks succeeded, 1 tasks failed or were cancelled, 124 the
time of --timeout is over.";

/// For which jobs, and how long.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct WaitArgs {
    /// Which: 3, 1-10, last or all
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// Wait no longer than this, like 10m
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Show how they go
    #[arg(long)]
    progress: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Waits.
///
/// # Errors
/// No such job, or the manager stays away for too long.
pub async fn run(args: WaitArgs) -> Result<Outcome, Failure> {
    let selectors: Vec<JobSelector> =
        args.jobs.iter().map(|text| JobSelector::parse(text)).collect::<Result<_, _>>()?;
    let timeout = match &args.timeout {
        None => None,
        Some(text) => Some(
            parse_duration_ms(text)
                .map(Duration::from_millis)
                .map_err(|error| Failure::bad_input(format!("--timeout: found `{text}`; {error}")))?,
        ),
    };
    let reader = Reader::open(&args.view.place).await?;
    let client = &reader.client;
    let mut jobs: Vec<JobId> = Vec::new();
    for selector in selectors {
        jobs.extend(selector.resolve_whole(client).await?);
    }
    look(&reader, &jobs).await?;
    let all = async {
        let all = all_over(client, &jobs, &args);
        match timeout {
            None => all.await.map(Some),
            Some(timeout) => tokio::time::timeout(timeout, all).await.ok().transpose(),
        }
    };
    // `last` may be another one by then.
    let again = match args.jobs.iter().any(|named| named == "last") {
        true => jobs.iter().map(JobId::to_string).collect::<Vec<_>>().join(" "),
        false => args.jobs.join(" "),
    };
    let again = goes_on(&again, &args.view.place.flags());
    let Some(ended) = unless_interrupted(all, &again).await? else { return Ok(Outcome::Interrupted) };
    let ended = match ended {
        Some(ended) => ended,
        None => match tell_state(client, &jobs, &args).await {
            Some(ended) => ended,
            None => return Ok(Outcome::TimedOut),
        },
    };
    if !args.view.quiet {
        ended.iter().for_each(warn_of_lost_output);
    }
    if args.view.json {
        show::print(&json_with_units(&ended)?)?;
    } else if !args.view.quiet {
        for job in &ended {
            show::print(&format!("{}\n", end_line(job)))?;
        }
    }
    Ok(outcome(&ended))
}

/// For who waits no more: how to wait again.
pub fn goes_on(jobs: &str, place: &str) -> String {
    format!("no longer waiting; what was submitted goes on: `pilotfish wait {jobs}{place}` waits again")
}

/// Before it is waited: refuses what will not end without a manager, warns of what cannot begin.
async fn look(reader: &Reader, jobs: &[JobId]) -> Result<(), Failure> {
    for view in views_of(&reader.client, jobs).await?.into_iter().filter(|view| view.ended_at.is_none()) {
        if let Some(left) = &reader.left {
            return Err(left.refusal());
        }
        if view.counts.waiting == view.counts.total || view.state == "paused" {
            explain::warn_of_nowhere(&reader.client, view.id, &Voice::default()).await;
        }
    }
    Ok(())
}

/// How jobs that are over count for the exit code.
pub fn outcome(jobs: &[JobView]) -> Outcome {
    let is_fine = jobs.iter().all(|job| job.counts.done == job.counts.total);
    if is_fine { Outcome::Fine } else { Outcome::TasksFailed }
}

/// One after the other: the longest decides anyway.
async fn all_over(client: &Client, jobs: &[JobId], args: &WaitArgs) -> Result<Vec<JobView>, Failure> {
    let verbosity = if args.progress { Verbosity::All } else { Verbosity::Nothing };
    let mut ended = Vec::new();
    for job in jobs {
        let mut progress = Progress::new(verbosity);
        let view = follow(client, *job, &mut progress).await;
        progress.finish(&args.view.place.flags());
        ended.push(view?);
    }
    Ok(ended)
}

/// Says on standard error how far jobs are that took longer than somebody would wait. Returns them if all are over after
/// all.
async fn tell_state(client: &Client, jobs: &[JobId], args: &WaitArgs) -> Option<Vec<JobView>> {
    let (after, place) = (args.timeout.as_deref().unwrap_or_default(), args.view.place.flags());
    // A manager that is gone by now has no numbers; that the time is up is told anyway.
    let views = match tokio::time::timeout(LAST_LOOK_LIMIT, views_of(client, jobs)).await {
        Ok(Ok(views)) => views,
        Ok(Err(_)) | Err(_) => Vec::new(),
    };
    if !views.is_empty() && views.iter().all(|job| job.ended_at.is_some()) {
        return Some(views);
    }
    let open: Vec<&JobView> = views.iter().filter(|job| job.ended_at.is_none()).collect();
    for job in &open {
        let (state, why) = match (job.state.as_str(), job.counts.running) {
            ("paused", _) => ("paused", String::new()),
            (_, 0) => ("waiting", format!("; `pilotfish explain job {}{place}` says why", job.id)),
            _ => ("running", String::new()),
        };
        let (done, total) = (count(job.counts.done), count(job.counts.total));
        show::say(&format!("job {}: still {state} after {after}: {done} of {total} done{why}", job.id));
    }
    if open.is_empty() {
        show::say(&format!("not all is over after {after}"));
    }
    None
}
