//! `pilotfish platform …`: one platform of a configuration, tried or looked at.

mod check;
mod script;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use manager::config::{Config, file::ManagerFile};
use profiles::site::Site;
use protocol::job::nearest;
use scheduler::engine::interface::PlatformSpec;

use crate::{
    failure::{Failure, Outcome},
    in_process,
};

/// What to do.
#[derive(Args)]
pub struct PlatformArgs {
    #[command(subcommand)]
    command: PlatformCommand,
}

#[derive(Subcommand)]
enum PlatformCommand {
    /// Try everything that a pilot there needs, step by step, and one pilot
    Check(check::CheckArgs),
    /// Print what would be submitted there
    Script(script::ScriptArgs),
}

/// Which platform.
#[derive(Args)]
struct Which {
    /// Its name in the configuration
    #[arg(value_name = "NAME")]
    name: String,
    /// The file that has it
    #[arg(long, value_name = "FILE", default_value = "manager.yaml")]
    config: PathBuf,
}

impl Which {
    /// The platform, and the rest of the file for a manager in this folder.
    fn find(&self, folder: PathBuf) -> Result<(Config, PlatformSpec, Site), Failure> {
        let refused =
            |error: &dyn ToString| Failure::BadInput(error.to_string().lines().map(str::to_owned).collect());
        let file = ManagerFile::load(&self.config).map_err(|error| refused(&error))?;
        let mut config = in_process::config(folder)?;
        config.apply(&file, &in_process::host_capacity()).map_err(|error| refused(&error))?;
        let platforms = std::mem::take(&mut config.platforms);
        let names: Vec<String> = platforms.iter().map(|(spec, _)| spec.name.clone()).collect();
        match platforms.into_iter().find(|(spec, _)| spec.name == self.name) {
            Some((spec, site)) => Ok((config, spec, site)),
            None => Err(Failure::bad_input(format!(
                "{}: found no platform `{}`; {}",
                self.config.display(),
                self.name,
                match nearest(&self.name, names.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("its platforms are {}", names.join(", ")),
                }
            ))),
        }
    }
}

/// Does it.
///
/// # Errors
/// A configuration that is wrong, or has no such platform.
pub async fn run(args: PlatformArgs) -> Result<Outcome, Failure> {
    match args.command {
        PlatformCommand::Check(args) => check::run(&args).await,
        PlatformCommand::Script(args) => script::run(&args),
    }
}
