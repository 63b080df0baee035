//! `pilotfish completions SHELL`.

use clap::Args;
use clap_complete::Shell;

use crate::{
    failure::{Failure, Outcome},
    show,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish completions bash > \\
      ~/.local/share/bash-completion/completions/pilotfish
  pilotfish completions zsh > ~/.zfunc/_pilotfish
  pilotfish completions fish > ~/.config/fish/completions/pilotfish.fish";

/// For which shell.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints them for the command line that `definition` makes.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &CompletionsArgs, definition: fn() -> clap::Command) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition(), "pilotfish", &mut script);
    show::print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Fine)
}
