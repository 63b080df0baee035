//! `pilotfish agent …`: the pilot, in this same program. The crate `agent` says what it takes.

use std::process::ExitCode;

use agent::command::AgentCommand;
use clap::Args;

/// What the pilot, or one of its tools, is to do.
#[derive(Args)]
#[command(version)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

/// Does it, before this process has a second thread.
pub fn run(args: AgentArgs) -> ExitCode {
    let code = agent::command::run(args.command);
    // The agent's codes are small; any other is a failure.
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
