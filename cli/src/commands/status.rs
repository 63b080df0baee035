//! `pilotfish status`: the manager as a whole.

use clap::Args;

use protocol::api::Status;

use crate::{
    failure::{Failure, Outcome},
    show::{
        self, Screen,
        facts::Facts,
        format::{age, bytes, clock, count, counted, span},
    },
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish status
  pilotfish status --watch
  pilotfish status --json | jq .totals.counts.running";

/// How it is shown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Shows the status.
///
/// # Errors
/// No manager and no store.
pub async fn run(args: StatusArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let url = &reader.client.access().url;
    let view = async |screen: &Screen| {
        let status = reader.client.status().await?;
        if args.view.json {
            return show::json(&status);
        }
        if args.view.quiet {
            return Ok(format!("{url}\n"));
        }
        Ok(facts(&status, url).render(screen))
    };
    args.watch.show(view).await
}

fn facts(status: &Status, url: &str) -> Facts {
    let totals = &status.totals;
    let counts = &totals.counts;
    let mut facts = Facts::default();
    facts.add("manager", format!("{url}, version {}, process {}", status.version, status.pid));
    facts.add("folder", format!("{} (store {})", status.folder, bytes(status.store_bytes)));
    let up = format!("{} ({} ago)", clock(status.started_at, totals.now), age(totals.now, status.started_at));
    facts.add("since", up);
    facts.add("user", status.user.clone());
    facts.add(
        "jobs",
        format!(
            "{} active, {} paused, {} over",
            totals.n_jobs_active, totals.n_jobs_paused, totals.n_jobs_over
        ),
    );
    facts.add(
        "tasks",
        format!(
            "{} waiting, {} queued, {} running, {} done, {} failed, {} cancelled",
            count(counts.waiting),
            count(counts.queued),
            count(counts.running),
            count(counts.done),
            count(counts.failed),
            count(counts.cancelled)
        ),
    );
    facts.add(
        "pilots",
        format!(
            "{}, {} of {} cores in use",
            counted(totals.n_pilots, "pilot"),
            totals.used_cores.min(totals.cores),
            totals.cores
        ),
    );
    if totals.is_shutting_down {
        facts.add("ending", "nothing new begins");
    }
    facts.add_some(
        "restarted",
        totals.in_grace.map(|left| format!("tasks are withheld for {} more", span(left))),
    );
    facts
}
