//! The small agent binary: what batch systems start on a node. See [`agent::command`].

use clap::Parser;

/// A Pilotfish pilot: pulls tasks from a manager and runs them on this node.
#[derive(Parser)]
#[command(name = "pilotfish-agent", version)]
struct Arguments {
    #[command(subcommand)]
    command: agent::command::AgentCommand,
}

fn main() {
    std::process::exit(agent::command::run(Arguments::parse().command));
}
