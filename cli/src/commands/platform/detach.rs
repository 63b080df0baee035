//! `pilotfish platform detach`: its pilots leave, then its entry goes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use scheduler::engine::views::PlatformView;

use super::{attach, entry};
use crate::{
    access,
    client::Client,
    failure::{Failure, Outcome},
    interrupts::Interrupts,
    show::{self, format::counted},
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform detach cluster
  pilotfish platform detach cluster --now --config centre.yaml

Drains the platform, waits until nothing of ours is left there, and takes its entry out of the file; all
other lines stay. Interrupted, it stays drained: run it again, or `pilotfish platform resume` it.";

/// How often the manager is asked what is left.
const INTERVAL: Duration = Duration::from_millis(300);

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DetachArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// The file that has it
    #[arg(long, value_name = "FILE", default_value = "manager.yaml")]
    config: PathBuf,
    /// Kill what its pilots run instead of waiting for it; it runs again elsewhere
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Detaches it.
///
/// # Errors
/// No such platform, no manager, or a file that is not changed here: then nothing was done.
pub(super) async fn run(args: &DetachArgs) -> Result<Outcome, Failure> {
    without(&args.config, &args.name)?;
    let client = access::find_for_change(&args.view.place).await?;
    let name = super::known(&client, &args.name).await?;
    let mut interrupts = Interrupts::listen()?;
    let tell = |text: &str| if args.view.json || args.view.quiet { Ok(()) } else { show::print(text) };
    let drained = client.change_platform(&name, "drain").await?;
    if drained.n_pilots_there > 0 {
        tell(&format!(
            "platform {name} is being drained: {} there or asked for\n",
            counted(drained.n_pilots_there, "pilot")
        ))?;
    }
    let detached = tokio::select! {
        detached = leave(&client, &name, args.now) => detached?,
        _ = interrupts.next() => return Ok(Outcome::Interrupted),
    };
    // Waiting took its time: somebody may have written the file meanwhile.
    attach::replace(&args.config, &without(&args.config, &args.name)?)?;
    if args.view.json {
        show::print(&show::json(&detached)?)?;
    }
    let config = show::quote::quoted(&args.config.display().to_string());
    tell(&format!("platform {name} is detached, and no longer in {config}\n"))?;
    Ok(Outcome::Fine)
}

/// Waits until nothing is there, and has the manager forget it.
async fn leave(client: &Client, name: &str, now: bool) -> Result<PlatformView, Failure> {
    if now {
        let there = client.allocations(false).await?.allocations;
        let ours = there.into_iter().filter(|held| held.platform == name && held.state != "leaving");
        for held in ours {
            // Those that end by themselves meanwhile need it no more.
            _ = client.cancel_allocation(held.id, true).await;
        }
    }
    let mut tick = tokio::time::interval(INTERVAL);
    while super::find(client, name).await?.n_pilots_there > 0 {
        tick.tick().await;
    }
    Ok(client.change_platform(name, "detach").await?)
}

/// The file without the platform.
fn without(path: &Path, name: &str) -> Result<String, Failure> {
    let refused = |what: String| Failure::bad_input(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))?;
    let mut before = attach::parse(&text, path)?;
    let Some(index) = before.platforms.iter().position(|platform| platform.name() == name) else {
        return Err(refused(format!("found no platform `{name}`; say with --config which file has it")));
    };
    let after = entry::removed(&text, index).map_err(|error| refused(error.to_string()))?;
    before.platforms.remove(index);
    match attach::parse(&after, path) {
        Ok(file) if file == before => Ok(after),
        _ => Err(refused(format!(
            "found lines that are not changed here; `pilotfish platform drain {name}`, and take the entry out by hand"
        ))),
    }
}
