//! `pilotfish platform detach`: its pilots leave, then its entry goes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use protocol::job::unreadable;
use scheduler::engine::interface::{PlatformMode, views::PlatformView};

use super::{attach, entry, reload};
use crate::{
    access,
    client::Client,
    failure::{Failure, Outcome, utf8},
    show::{self, units::json_with_units},
    sys::interrupts::Interrupts,
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform detach cluster
  pilotfish platform detach cluster --now --config centre.yaml

Drains the platform, waits until nothing of ours is left there, and removes its
entry from the file that the manager was started with; all other lines stay. If
interrupted, the platform stays drained: run the command again, or `pilotfish
platform resume`.";

/// How often the manager is asked what is left.
const INTERVAL: Duration = Duration::from_millis(300);

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DetachArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// The file that has it [default: manager.yaml here, else that of the manager]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Kill its running tasks instead of waiting; they run again elsewhere
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Detaches it.
///
/// # Errors
/// No such platform, no manager, a file that is not the manager's, or that is not changed here: then nothing
/// was done.
pub(super) async fn run(args: &DetachArgs) -> Result<Outcome, Failure> {
    let config = match &args.config {
        Some(config) => config.clone(),
        None => super::file_of(&args.view.place).await?,
    };
    let (_, names) = without(&config, &args.name)?;
    let client =
        access::find_for_operator(&args.view.place).await.map_err(|failure| by_hand(failure, &config))?;
    for name in &names {
        super::known(&client, name).await?;
    }
    // A platform that goes from another file than the manager's would be there again at its next start.
    reload::ask(&client, &config).await?;
    let mut interrupts = Interrupts::listen()?;
    let mut detached = Vec::new();
    for name in &names {
        let left = tokio::select! {
            left = leave(&client, name, args) => left?,
            _ = interrupts.next() => {
                let hint = format!("`pilotfish platform detach {}` goes on with it", args.name);
                show::say(&format!("platform {name} stays drained; {hint}"));
                return Ok(Outcome::Interrupted);
            }
        };
        detached.push(left);
    }
    // Waiting took its time: somebody may have written the file meanwhile, or be about to.
    let lock = attach::lock(&config);
    attach::replace(&config, &without(&config, &args.name)?.0)?;
    drop(lock);
    if let Err(failure) = reload::ask(&client, &config).await {
        show::say(&format!("the manager knows nothing of the change in the file: {}", failure.message()));
    }
    if args.view.json {
        show::print(&json_with_units(&detached)?)?;
    }
    let config = show::quote::quoted(&config.display().to_string());
    tell(args, &format!("platform {} is detached, and no longer in {config}", args.name))?;
    Ok(Outcome::Fine)
}

/// The same, with what can be done while no manager runs.
fn by_hand(failure: Failure, config: &Path) -> Failure {
    let Failure::Infrastructure(line) = failure else { return failure };
    let config = show::quote::quoted(&config.display().to_string());
    Failure::Infrastructure(format!(
        "{line}; a manager that has pilots there is started with `--config {config}`; if none has, take the entry out of \
         {config} yourself"
    ))
}

fn tell(args: &DetachArgs, line: &str) -> Result<(), Failure> {
    if args.view.json || args.view.quiet { Ok(()) } else { show::print(&format!("{line}\n")) }
}

/// Waits until nothing is there, and has the manager forget it.
async fn leave(client: &Client, name: &str, args: &DetachArgs) -> Result<PlatformView, Failure> {
    let mut platform = super::find(client, name).await?;
    if platform.mode == PlatformMode::Detached {
        return Ok(platform);
    }
    client.change_platform(name, "drain").await?;
    if args.now {
        let there = client.allocations(false).await?.allocations;
        for held in there.into_iter().filter(|held| held.platform == name && held.state != "leaving") {
            // Those that end by themselves meanwhile need it no more.
            _ = client.cancel_allocation(held.id, true).await;
        }
    }
    let (mut tick, mut told) = (tokio::time::interval(INTERVAL), String::new());
    loop {
        platform = super::find(client, name).await?;
        if platform.n_pilots_there == 0 {
            return Ok(client.change_platform(name, "detach").await?);
        }
        let left = super::left(&platform);
        if left != told {
            tell(args, &format!("platform {name} is being drained: {left}"))?;
            told = left;
        }
        tick.tick().await;
    }
}

/// The file without the platform, and the names of the platforms that its entry stands for.
fn without(path: &Path, name: &str) -> Result<(String, Vec<String>), Failure> {
    let refused = |what: String| Failure::bad_input(format!("{}: {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| Failure::from(vec![unreadable(path, &error)]))?;
    let text = utf8(bytes, path)?;
    let mut before = attach::parse(&text, path)?;
    let Some(index) = before.platforms.iter().position(|platform| platform.name() == name) else {
        let of_several =
            before.platforms.iter().find(|one| one.each().iter().any(|each| each.name() == name));
        let names: Vec<String> = before.platforms.iter().map(|one| one.name().to_owned()).collect();
        return Err(match of_several {
            Some(entry) => refused(format!(
                "`{name}` is one of the hosts of `{}`; `pilotfish platform drain {name}`, and take it out of them by hand",
                entry.name()
            )),
            None => super::not_in(path, ("platform", name), &names),
        });
    };
    let after = entry::removed(&text, index).map_err(|error| refused(error.to_string()))?;
    let names = before.platforms.remove(index).each().iter().map(|each| each.name().to_owned()).collect();
    match attach::parse(&after, path) {
        Ok(file) if file == before => Ok((after, names)),
        _ => Err(refused(format!(
            "found lines that are not changed here; `pilotfish platform drain {name}`, and take the entry out by hand"
        ))),
    }
}
