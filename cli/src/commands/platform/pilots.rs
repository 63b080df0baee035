//! `pilotfish pilots`.

use clap::Args;

use scheduler::engine::interface::views::PilotView;

use crate::{
    failure::{Failure, Outcome},
    show::{
        Screen,
        format::{age, count, span},
        table::{Cell, Table},
        units::json_with_units,
        words,
    },
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish pilots
  pilotfish pilots --all          those that have ended, too
  pilotfish pilots --watch=5";

/// Which, and how they are shown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PilotsArgs {
    /// Those that have ended, too
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Lists pilots.
///
/// # Errors
/// No manager and no store.
pub async fn run(args: PilotsArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let view = async |screen: &Screen| {
        let pilots = reader.client.pilots(args.all).await?.pilots;
        if args.view.json {
            return json_with_units(&pilots);
        }
        if args.view.quiet {
            return Ok(pilots.iter().map(|pilot| format!("{}\n", pilot.id)).collect());
        }
        let now = reader.client.status().await?.totals.now;
        let mut table = Table::new(&[
            ">PILOT", "PLATFORM", "HOST", "STATE", ">CORES", ">RUNNING", ">QUEUED", ">DONE", ">FAILED",
            ">AGE", ">SILENT", ">LEFT", "WHY",
        ]);
        for pilot in &pilots {
            let offered = pilot.node.capacity.cores;
            // Tasks sent ahead are promised cores of those that run.
            let used = pilot.used.cores.min(offered);
            let until = pilot.ended_at.unwrap_or(now);
            table.row(vec![
                pilot.id.to_string().into(),
                pilot.platform.clone().into(),
                pilot.node.hostname.clone().into(),
                words::state(&pilot.state),
                format!("{used}/{offered}").into(),
                count(pilot.n_running).into(),
                count(pilot.n_queued).into(),
                count(pilot.n_done).into(),
                words::failures(pilot.n_failed),
                age(until, pilot.registered_at).into(),
                silence(pilot),
                pilot.walltime_left.map(span).unwrap_or_default().into(),
                pilot.why.clone().unwrap_or_default().into(),
            ]);
        }
        Ok(table.render_or("no pilots", screen))
    };
    args.watch.show(view).await
}

/// How long nothing was heard of a pilot that lives, when that is worth a look.
fn silence(pilot: &PilotView) -> Cell {
    let silent_for = pilot.silent_for.filter(|silent| pilot.ended_at.is_none() && silent.0 >= 1_000_000);
    silent_for.map(span).unwrap_or_default().into()
}
