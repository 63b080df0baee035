//! `pilotfish allocation …`: what platforms were asked for.

use clap::{Args, Subcommand};
use scheduler::{
    engine::interface::views::AllocationView,
    explain::core_hours,
    ids::{AllocationId, PilotId},
    time::Time,
};

use crate::commands::platform;
use crate::{
    access,
    failure::{Failure, Outcome},
    show::{
        self, Screen,
        facts::Facts,
        format::{age, clock, counted, span},
        table::Table,
        units::json_with_units,
        words,
    },
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish allocation list      what platforms were asked for
  pilotfish allocation show 7    all that is known of one
  pilotfish allocation cancel 7  give it back when its pilot has ended its tasks";

const LIST_EXAMPLES: &str = "\
Examples:
  pilotfish allocation list
  pilotfish allocation list --all          those that have ended, too
  pilotfish allocation list --platform cluster";

const SHOW_EXAMPLES: &str = "\
Examples:
  pilotfish allocation show 7";

const CANCEL_EXAMPLES: &str = "\
Examples:
  pilotfish allocation cancel 7
  pilotfish allocation cancel 7 8 --now
      # do not wait for what their pilots run: it runs again elsewhere";

/// What to do.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct AllocationArgs {
    #[command(subcommand)]
    command: AllocationCommand,
}

#[derive(Subcommand)]
enum AllocationCommand {
    /// List allocations
    List(ListArgs),
    /// Show an allocation in full
    Show(ShowArgs),
    /// Cancel allocations
    Cancel(CancelArgs),
}

#[derive(Args)]
#[command(after_help = LIST_EXAMPLES)]
struct ListArgs {
    /// Those that have ended, too
    #[arg(short, long)]
    all: bool,
    /// Only those of this platform
    #[arg(long, value_name = "NAME")]
    platform: Option<String>,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

#[derive(Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct ShowArgs {
    /// Its number
    #[arg(value_name = "NUMBER")]
    id: u64,
    #[command(flatten)]
    view: ViewArgs,
}

#[derive(Args)]
#[command(after_help = CANCEL_EXAMPLES)]
struct CancelArgs {
    /// Their numbers
    #[arg(value_name = "NUMBER", required = true)]
    ids: Vec<u64>,
    /// Kill running tasks instead of waiting; they run again elsewhere
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Does it.
///
/// # Errors
/// No such allocation, one that is over, or no manager.
pub async fn run(args: AllocationArgs) -> Result<Outcome, Failure> {
    match args.command {
        AllocationCommand::List(args) => list(&args).await,
        AllocationCommand::Show(args) => show(&args).await,
        AllocationCommand::Cancel(args) => cancel(&args).await,
    }
}

async fn list(args: &ListArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let view = async |screen: &Screen| {
        let mut allocations = reader.client.allocations(args.all).await?.allocations;
        if let Some(name) = &args.platform {
            platform::known(&reader.client, name).await?;
        }
        allocations.retain(|held| args.platform.as_ref().is_none_or(|name| *name == held.platform));
        if args.view.json {
            return json_with_units(&allocations);
        }
        if args.view.quiet {
            return Ok(allocations.iter().map(|held| format!("{}\n", held.id)).collect());
        }
        let now = reader.client.status().await?.totals.now;
        let mut table = Table::new(&[
            ">ALLOCATION",
            "PLATFORM",
            "BATCH ID",
            "STATE",
            ">CORES",
            ">WALLTIME",
            ">PILOT",
            ">WAITED",
            ">AGE",
            "WHY",
        ]);
        for held in &allocations {
            table.row(vec![
                held.id.to_string().into(),
                held.platform.clone().into(),
                held.batch_id.clone().unwrap_or_default().into(),
                words::state(&held.state),
                held.cores.to_string().into(),
                held.walltime.map(span).unwrap_or_default().into(),
                pilots(&held.pilots).into(),
                waited(held, now).into(),
                age(held.ended_at.unwrap_or(now), held.asked_for_at).into(),
                held.why.clone().unwrap_or_default().into(),
            ]);
        }
        Ok(table.render_or("no allocations", screen))
    };
    args.watch.show(view).await
}

/// Until its pilot came, or it ended without one.
fn waited(held: &AllocationView, now: Time) -> String {
    age(held.pilot_at.or(held.ended_at).unwrap_or(now), held.asked_for_at)
}

async fn show(args: &ShowArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let held = reader.client.allocation(AllocationId(args.id)).await?;
    let text = if args.view.json {
        json_with_units(&held)?
    } else if args.view.quiet {
        format!("{}\n", held.state)
    } else {
        let now = reader.client.status().await?.totals.now;
        facts(&held, now).render(&Screen::stdout())
    };
    show::print(&text)?;
    Ok(Outcome::Fine)
}

fn facts(held: &AllocationView, now: Time) -> Facts {
    let mut facts = Facts::default();
    facts.add("allocation", held.id.to_string());
    let why = held.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    facts.add("state", format!("{}{why}", held.state));
    facts.add("platform", held.platform.clone());
    facts.add("tag", held.tag.clone());
    facts.add_some("batch id", held.batch_id.clone());
    let life = held.walltime.map_or("no end".to_owned(), span);
    let (cores, at) = (counted(held.cores.into(), "core"), clock(held.asked_for_at, now));
    let nodes = if held.n_nodes > 1 { format!(" on {} nodes", held.n_nodes) } else { String::new() };
    facts.add("asked for", format!("{cores}{nodes}, {life}, at {at}"));
    facts.add_some("accepted", held.accepted_at.map(|at| format!("at {}", clock(at, now))));
    let came = |at| format!("at {}, after {}", clock(at, now), age(at, held.asked_for_at));
    facts.add_some("pilot came", held.pilot_at.map(came));
    match &held.pilots[..] {
        [] => {}
        [pilot] => facts.add("pilot", pilot.to_string()),
        all => facts.add("pilots", pilots(all)),
    }
    facts.add_some("ended", held.ended_at.map(|at| format!("at {}", clock(at, now))));
    facts.add("core-hours", core_hours_text(held));
    facts
}

/// The core-hours that an allocation has used, or those that it can use at most. Without a walltime nothing limits them.
fn core_hours_text(held: &AllocationView) -> String {
    match (held.ended_at, held.walltime) {
        (Some(_), _) => core_hours(held.core_time),
        (None, Some(_)) => format!("{} at most", core_hours(held.core_time)),
        (None, None) => "no limit, as it has no walltime".to_owned(),
    }
}

async fn cancel(args: &CancelArgs) -> Result<Outcome, Failure> {
    let client = access::find_for_operator(&args.view.place).await?;
    let (mut cancelled, mut refusals) = (Vec::new(), Vec::new());
    for id in &args.ids {
        match client.cancel_allocation(AllocationId(*id), args.now).await.map_err(Failure::from) {
            Ok(held) => {
                if !args.view.json && !args.view.quiet {
                    show::print(&format!("allocation {id} {}\n", meaning(&held, args.now)))?;
                }
                cancelled.push(held);
            }
            Err(Failure::BadInput(lines)) => refusals.extend(lines),
            Err(failure) => return Err(failure),
        }
    }
    if args.view.json {
        show::print(&json_with_units(&cancelled)?)?;
    }
    if refusals.is_empty() { Ok(Outcome::Fine) } else { Err(Failure::BadInput(refusals)) }
}

fn meaning(held: &AllocationView, now: bool) -> String {
    match (&held.pilots[..], now) {
        ([], _) => "is cancelled".to_owned(),
        ([pilot], false) => format!("is given back when pilot {pilot} has ended what it runs"),
        ([pilot], true) => format!("is given back; what pilot {pilot} runs is killed and runs again"),
        (all, false) => format!("is given back when pilots {} have ended what they run", pilots(all)),
        (all, true) => format!("is given back; what pilots {} run is killed and runs again", pilots(all)),
    }
}

/// `3` or `3, 4, 5`
fn pilots(ids: &[PilotId]) -> String {
    ids.iter().map(|pilot| pilot.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use scheduler::{
        engine::interface::views::AllocationView,
        ids::AllocationId,
        time::{Span, Time},
    };

    use super::core_hours_text;

    #[test]
    fn an_allocation_without_a_walltime_has_no_most_of_core_hours() {
        let said = |walltime: Option<Span>, ended_at: Option<Time>, hours: u64| {
            core_hours_text(&AllocationView {
                id: AllocationId(1),
                platform: "here".to_owned(),
                tag: "pf1-1".to_owned(),
                batch_id: None,
                state: "running".to_owned(),
                why: None,
                pilots: Vec::new(),
                n_nodes: 1,
                cores: 2,
                walltime,
                asked_for_at: Time(0),
                accepted_at: None,
                pilot_at: None,
                ended_at,
                core_time: Span::from_secs(hours * 3600),
                queue_reason: None,
            })
        };
        assert_eq!(said(Some(Span::from_secs(3600)), None, 2), "2 at most");
        assert_eq!(said(None, None, 0), "no limit, as it has no walltime");
        assert_eq!(said(None, Some(Time(0)), 3), "3");
    }
}
