//! `pilotfish platform …`: platforms of a configuration, tried or looked at, and those of a running manager.

pub(crate) mod allocation;
mod attach;
mod change;
mod check;
mod detach;
mod entry;
mod limits;
pub(super) mod list;
mod login;
pub(crate) mod pilots;
mod reload;
mod script;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use manager::config::{Config, file::ManagerFile};
use profiles::site::Site;
use protocol::job::nearest;
use scheduler::engine::interface::{PlatformSpec, views::PlatformView};

use crate::{
    access::{self, Where, folders::show_path},
    client::Client,
    failure::{Failure, Outcome},
    in_process,
};
use change::Change;

pub(super) use reload::told;
pub(super) use show::left;

const EXAMPLES: &str = "\
Examples:
  pilotfish platform attach slurm cluster --ssh ada@login.centre.org
      # write it into manager.yaml
  pilotfish platform check cluster  try it, with one pilot
  pilotfish platform list
  pilotfish platform show cluster
  pilotfish platform limits cluster --pilots-max 5
  pilotfish platform drain cluster";

/// What to do.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PlatformArgs {
    #[command(subcommand)]
    command: PlatformCommand,
}

impl PlatformArgs {
    /// Whether a manager runs in this process for it.
    pub fn hosts_manager(&self) -> bool {
        matches!(self.command, PlatformCommand::Check(_))
    }
}

#[derive(Subcommand)]
enum PlatformCommand {
    /// Find out what an account offers, and write it into manager.yaml
    Attach(Box<attach::AttachArgs>),
    /// List the platforms of the manager
    List(list::PlatformsArgs),
    /// Show a platform in full, and why it has the pilots it has
    Show(show::ShowArgs),
    /// Ask platforms for no more pilots; those that are there go on
    Pause(change::ChangeArgs),
    /// Let paused or drained platforms go on
    Resume(change::ChangeArgs),
    /// Ask platforms for no more pilots; those that are there finish their tasks and leave
    Drain(change::ChangeArgs),
    /// Drain a platform, and remove it from manager.yaml
    Detach(detach::DetachArgs),
    /// Make the manager read manager.yaml again, for new platforms and changed limits
    Reload(reload::ReloadArgs),
    /// Show or set the limits of a platform
    Limits(limits::LimitsArgs),
    /// Open the SSH connection to a platform or a store, and answer what its host asks
    Login(login::LoginArgs),
    /// Try everything that a pilot on a platform needs, step by step, then one pilot
    Check(check::CheckArgs),
    /// Print what would be submitted to a platform
    Script(script::ScriptArgs),
}

/// Which platform.
#[derive(Args)]
struct Which {
    /// Its name in the configuration
    #[arg(value_name = "NAME")]
    name: String,
    /// The file that has it [default: manager.yaml here, else that of the manager]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "manager"])]
    config: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
}

impl Which {
    /// The file that has it: the one that is named, the one here, or that with which the manager was started.
    async fn file(&self) -> Result<PathBuf, Failure> {
        match &self.config {
            Some(config) => Ok(config.clone()),
            None => file_of(&self.place).await,
        }
    }

    /// The platform, and the rest of the file for a manager in this folder.
    async fn find(&self, folder: PathBuf) -> Result<(Config, PlatformSpec, Site), Failure> {
        let (path, mut config) = self.load(folder).await?;
        let platforms = std::mem::take(&mut config.platforms);
        let names: Vec<String> = platforms.iter().map(|(spec, _)| spec.name.clone()).collect();
        match platforms.into_iter().find(|(spec, _)| spec.name == self.name) {
            Some((spec, site)) => Ok((config, spec, site)),
            None => Err(not_in(&path, ("platform", &self.name), &names)),
        }
    }

    /// The file, and what it says for a manager in this folder.
    async fn load(&self, folder: PathBuf) -> Result<(PathBuf, Config), Failure> {
        let path = self.file().await?;
        let refused =
            |error: &dyn ToString| Failure::BadInput(error.to_string().lines().map(str::to_owned).collect());
        let file = ManagerFile::load(&path).map_err(|error| refused(&error))?;
        let mut config = in_process::config(folder)?;
        config.apply(&file, &in_process::host_capacity()).map_err(|error| refused(&error))?;
        Ok((path, config))
    }
}

/// The file here, or that with which the manager was started.
async fn file_of(place: &Where) -> Result<PathBuf, Failure> {
    let here = || PathBuf::from("manager.yaml");
    let names_manager = place.dir.is_some() || place.manager.is_some();
    if !names_manager && here().exists() {
        return Ok(here());
    }
    let (folder, client) = match access::find_home(place).await {
        Ok(found) => found,
        // That there is no file here is what can be mended.
        Err(_) if !names_manager => return Ok(here()),
        Err(why) => return Err(why),
    };
    client.status().await?.config.map(PathBuf::from).ok_or_else(|| {
        Failure::bad_input(format!(
            "the manager in {} was started without a configuration; name the file with --config",
            show_path(&folder)
        ))
    })
}

/// A file has these platforms, or what it is that has a name, and not that one.
fn not_in(file: &Path, (what, name): (&str, &str), names: &[String]) -> Failure {
    let of_it = format!("{name}-");
    let hosts: Vec<&str> =
        names.iter().filter(|known| known.starts_with(&of_it)).map(String::as_str).collect();
    let hint = match nearest(name, names.iter().map(String::as_str)) {
        _ if !hosts.is_empty() => format!("each host of a list is one: {}", hosts.join(", ")),
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "it has none".to_owned(),
        None => format!("its {}s are {}", what.replace(" or ", "s and "), names.join(", ")),
    };
    Failure::bad_input(format!("{}: found no {what} `{name}`; {hint}", file.display()))
}

/// The manager's platform of that name.
async fn find(client: &Client, name: &str) -> Result<PlatformView, Failure> {
    let platforms = client.platforms().await?.platforms;
    let known = platforms.iter().map(|platform| platform.name.clone()).collect::<Vec<_>>();
    platforms.into_iter().find(|platform| platform.name == name).ok_or_else(|| {
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => {
                "none is attached: list it under `platforms` in a manager.yaml for `pilotfish serve --config`"
                    .to_owned()
            }
            None => format!("known: {}", known.join(", ")),
        };
        Failure::bad_input(format!("there is no platform `{name}`; {hint}"))
    })
}

/// The name, which the manager knows: it goes into a path.
pub(super) async fn known(client: &Client, name: &str) -> Result<String, Failure> {
    find(client, name).await.map(|platform| platform.name)
}

/// Does it.
///
/// # Errors
/// No such platform, a configuration that is wrong, or no manager.
pub async fn run(args: PlatformArgs) -> Result<Outcome, Failure> {
    match args.command {
        PlatformCommand::Attach(args) => attach::run(&args).await,
        PlatformCommand::List(args) => list::run(args).await,
        PlatformCommand::Show(args) => show::run(args).await,
        PlatformCommand::Pause(args) => change::run(&args, Change::Pause).await,
        PlatformCommand::Resume(args) => change::run(&args, Change::Resume).await,
        PlatformCommand::Drain(args) => change::run(&args, Change::Drain).await,
        PlatformCommand::Detach(args) => detach::run(&args).await,
        PlatformCommand::Reload(args) => reload::run(&args).await,
        PlatformCommand::Limits(args) => limits::run(&args).await,
        PlatformCommand::Login(args) => login::run(&args).await,
        PlatformCommand::Check(args) => check::run(&args).await,
        PlatformCommand::Script(args) => script::run(&args).await,
    }
}
