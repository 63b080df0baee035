//! `pilotfish platform pause`, `resume` and `drain`.

use clap::Args;
use scheduler::engine::interface::views::PlatformView;

use crate::{
    access,
    failure::{Failure, Outcome},
    show::{self, format::counted, units::json_with_units},
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform pause cluster
      # before its maintenance: what runs there goes on
  pilotfish platform drain cluster  what waits there is cancelled, pilots leave
  pilotfish platform resume cluster

What you set stays set when the manager starts again.";

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ChangeArgs {
    /// Their names
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// What is wanted.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Pause,
    Resume,
    Drain,
}

/// Changes them; says what that means.
///
/// # Errors
/// No such platform, or no manager. Those before it are changed.
pub(super) async fn run(args: &ChangeArgs, change: Change) -> Result<Outcome, Failure> {
    let client = access::find_for_operator(&args.view.place).await?;
    let verb = match change {
        Change::Pause => "pause",
        Change::Resume => "resume",
        Change::Drain => "drain",
    };
    let mut changed = Vec::new();
    for name in &args.names {
        let platform = client.change_platform(&super::known(&client, name).await?, verb).await?;
        if !args.view.json && !args.view.quiet {
            show::print(&format!("platform {name} {}\n", meaning(&platform, change)))?;
        }
        changed.push(platform);
    }
    if args.view.json {
        show::print(&json_with_units(&changed)?)?;
    }
    Ok(Outcome::Fine)
}

fn meaning(platform: &PlatformView, change: Change) -> String {
    let pilots = counted(platform.n_pilots, "pilot");
    let waiting = counted(platform.n_queued, "allocation");
    match change {
        Change::Pause => {
            format!("is paused: nothing more is asked for; {pilots} and {waiting} that wait go on")
        }
        Change::Resume => "goes on".to_owned(),
        Change::Drain => {
            format!("is being drained: what runs on {pilots} ends first; {waiting} that wait are cancelled")
        }
    }
}
