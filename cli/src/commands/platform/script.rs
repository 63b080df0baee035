//! `pilotfish platform script`: what would be submitted.

use adapters::{Surroundings, command::AllocationRequest};
use clap::Args;

use super::Which;
use crate::{
    failure::{Failure, Outcome},
    show::{self, quote::quoted},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform script cluster
  pilotfish platform script cluster --config centre.yaml";

/// In place of what each pilot gets of its own.
const JOIN: &[u8] = b"(the pilot's own address of the manager and token)";

/// Which.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ScriptArgs {
    #[command(flatten)]
    which: Which,
}

/// Prints it.
///
/// # Errors
/// A configuration that is wrong, or has no such platform.
pub fn run(args: &ScriptArgs) -> Result<Outcome, Failure> {
    let folder = std::env::temp_dir();
    let (config, spec, site) = args.which.find(folder)?;
    let surroundings = Surroundings { agent_command: config.agent_command };
    let unknown = || Failure::bad_input(format!("`{}`: an unknown adapter", spec.adapter));
    let adapter = adapters::adapter(&spec.adapter, &surroundings, &site).ok_or_else(unknown)?;
    let request = AllocationRequest {
        tag: "pf000000-1".to_owned(),
        folder: "/pilots/pf000000-1".to_owned(),
        n_nodes: spec.n_nodes,
        capacity: spec.capacity,
        walltime: spec.walltime,
        join: JOIN.to_vec(),
    };
    let command = adapter.submit(&request);
    let line: Vec<String> = command.argv.iter().map(|word| quoted(word)).collect();
    let stdin = String::from_utf8_lossy(&command.stdin);
    show::print(&format!("{} <<'SCRIPT'\n{}\nSCRIPT\n", line.join(" "), stdin.trim_end()))?;
    Ok(Outcome::Fine)
}
