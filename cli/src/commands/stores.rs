//! `pilotfish stores`.

use clap::Args;

use crate::{
    access,
    failure::{Failure, Outcome},
    show::{self, Screen, table::Table},
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish stores
  pilotfish stores --json

A job takes a file from a store, or leaves one there, by `store://NAME/PATH` in
`inputs` and `outputs`. Operators name stores in manager.yaml. The column
FILES TRAVEL says whether files go between nodes and the store or through the
manager.";

/// How they are shown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StoresArgs {
    #[command(flatten)]
    view: ViewArgs,
}

/// Lists the stores that one's jobs may name.
///
/// # Errors
/// No running manager.
pub async fn run(args: StoresArgs) -> Result<Outcome, Failure> {
    let client = access::find_live(&args.view.place).await?.client;
    let stores = client.stores().await?.stores;
    if args.view.json {
        show::print(&show::json(&stores)?)?;
    } else if args.view.quiet {
        show::print(&stores.iter().map(|store| format!("{}\n", store.name)).collect::<String>())?;
    } else if stores.is_empty() {
        show::print("no stores: the manager's configuration names none for you\n")?;
    } else {
        let mut table = Table::new(&["STORE", "KIND", "FILES TRAVEL", "AT"]);
        for store in stores {
            let travel = if store.is_through_manager { "through the manager" } else { "directly" };
            table.row(vec![store.name.into(), store.kind.into(), travel.into(), store.at.into()]);
        }
        show::print(&table.render(&Screen::stdout()))?;
    }
    Ok(Outcome::Fine)
}
