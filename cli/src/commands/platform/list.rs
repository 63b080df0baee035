//! `pilotfish platforms` and `pilotfish platform list`: the platforms of a manager.

use clap::Args;

use super::show::state;
use crate::{
    failure::{Failure, Outcome},
    show::{Screen, format::count, table::Table, units::json_with_units, words},
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platforms
  pilotfish explain platform local";

/// How they are shown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PlatformsArgs {
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Lists platforms.
///
/// # Errors
/// No manager and no store.
pub async fn run(args: PlatformsArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let view = async |screen: &Screen| {
        let platforms = reader.client.platforms().await?.platforms;
        if args.view.json {
            return json_with_units(&platforms);
        }
        if args.view.quiet {
            return Ok(platforms.iter().map(|platform| format!("{}\n", platform.name)).collect());
        }
        let mut table = Table::new(&[
            "PLATFORM",
            "ADAPTER",
            "STATE",
            ">PILOTS",
            ">MAX",
            ">?AWAITED",
            ">?CORES USED",
            ">?FAILURES",
            "EACH PILOT",
            "LAST FAILURE",
        ]);
        for platform in &platforms {
            // Tasks sent ahead are promised cores of those that run.
            let offered = platform.n_pilots.saturating_mul(platform.slots().into());
            table.row(vec![
                platform.name.clone().into(),
                platform.adapter.clone().into(),
                words::state(state(platform, reader.left.is_none())),
                count(platform.n_pilots).into(),
                platform.n_pilots_max.to_string().into(),
                count(platform.n_allocations_waiting + platform.n_allocations_unknown).into(),
                count(platform.used_cores.min(offered)).into(),
                words::failures(platform.n_failures.into()),
                platform.capacity.to_string().into(),
                platform.last_failure.clone().unwrap_or_default().into(),
            ]);
        }
        Ok(table.render_or("no platforms", screen))
    };
    args.watch.show(view).await
}
