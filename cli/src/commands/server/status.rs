//! `pilotfish status`: the manager as a whole.

use clap::Args;
use serde::Serialize;

use protocol::api::Status;
use scheduler::{engine::interface::views::StatusView, time::Time};

use crate::{
    failure::{Failure, Outcome},
    show::{
        Screen,
        facts::Facts,
        format::{age, bytes, clock, counted, span},
        job::counts_text,
        units::json_with_units,
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
    // Without a manager, this process stands in for it: of that nothing is told.
    let url = reader.left.is_none().then_some(reader.client.access().url.as_str());
    let view = async |screen: &Screen| {
        let status = reader.client.status().await?;
        if args.view.json {
            return match url {
                Some(_) => json_with_units(&status),
                None => json_with_units(&Stored::of(&status)),
            };
        }
        if args.view.quiet {
            return Ok(url.map(|url| format!("{url}\n")).unwrap_or_default());
        }
        Ok(facts(&status, url).render(screen))
    };
    args.watch.show(view).await
}

/// The status of a store without a manager: the same fields, those of a running one `null`.
#[derive(Serialize, schemars::JsonSchema)]
struct Stored<'a> {
    totals: &'a StatusView,
    version: Option<&'a str>,
    folder: &'a str,
    pid: Option<u32>,
    started_at: Option<Time>,
    store_bytes: u64,
    user: &'a str,
}

impl Stored<'_> {
    fn of(status: &Status) -> Stored<'_> {
        Stored {
            totals: &status.totals,
            version: None,
            folder: &status.folder,
            pid: None,
            started_at: None,
            store_bytes: status.store_bytes,
            user: &status.user,
        }
    }
}

/// `url` of the manager; `None`: none is running.
fn facts(status: &Status, url: Option<&str>) -> Facts {
    let totals = &status.totals;
    let counts = &totals.counts;
    let mut facts = Facts::default();
    let manager = match url {
        Some(url) => format!("{url}, version {}, process {}", status.version, status.pid),
        None => "none is running; the store is only read".to_owned(),
    };
    facts.add("manager", manager);
    facts.add("folder", format!("{} (store {})", status.folder, bytes(status.store_bytes)));
    if let Some(free) = status.low_disk_bytes {
        let what =
            format!("nearly full ({} free): no job and no output is taken until there is room", bytes(free));
        facts.add("disk", what);
    }
    if url.is_some() {
        let ago = age(totals.now, status.started_at);
        facts.add("since", format!("{} ({ago} ago)", clock(status.started_at, totals.now)));
    }
    facts.add("user", status.user.clone());
    facts.add(
        "jobs",
        format!(
            "{} active, {} paused, {} over",
            totals.n_jobs_active, totals.n_jobs_paused, totals.n_jobs_over
        ),
    );
    let parts = counts_text(counts);
    facts.add("tasks", if parts.is_empty() { "none".to_owned() } else { parts });
    if url.is_none() {
        return facts;
    }
    facts.add(
        "pilots",
        format!(
            "{}, {} of {} cores in use",
            counted(totals.n_pilots, "pilot"),
            totals.used_cores.min(totals.cores),
            totals.cores
        ),
    );
    facts.add_some(
        "fairness",
        totals.fairness.map(|fairness| format!("{fairness:.3} among users with open tasks")),
    );
    let platforms = totals.waiting_for_person.iter().map(|name| ("platform", name));
    let stores = status.stores_waiting_for_person.iter().map(|name| ("store", name));
    for (what, name) in platforms.chain(stores) {
        facts.add(
            "waiting",
            format!("{what} {name} waits for a person: run `pilotfish platform login {name}`"),
        );
    }
    if totals.is_shutting_down {
        facts.add("ending", "nothing new begins");
    }
    facts.add_some(
        "restarted",
        totals.in_grace.map(|left| format!("tasks are withheld for {} more", span(left))),
    );
    facts
}
