//! `pilotfish platform script`: what would be submitted.

use adapters::{
    Surroundings,
    command::AllocationRequest,
    openstack::{self, AgentSource},
};
use clap::Args;
use manager::platforms::agent_file::smallest;
use profiles::site::{Reach, Site};
use scheduler::engine::interface::PlatformSpec;

use super::Which;
use crate::{
    failure::{Failure, Outcome},
    show::{self, quote::quoted},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform script cluster
  pilotfish platform script cluster --config centre.yaml

Placeholders stand for what differs for each pilot (its number, the manager's
address, its token) and for what only a connection tells (the home there, the
hash of the agent).";

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
pub async fn run(args: &ScriptArgs) -> Result<Outcome, Failure> {
    let (config, spec, site) = args.which.find(std::env::temp_dir()).await?;
    let folder = folder_of_pilots(&site);
    let surroundings = Surroundings { agent_command: agent_command(config.agent_command.clone(), &site) };
    if spec.adapter == openstack::NAME {
        return user_data(&config.agent_command, spec, &site);
    }
    let unknown = || Failure::bad_input(format!("`{}`: an unknown adapter", spec.adapter));
    let adapter = adapters::adapter(&spec.adapter, &surroundings, &site).ok_or_else(unknown)?;
    let request = AllocationRequest {
        tag: "pf000000-1".to_owned(),
        folder: format!("{folder}/pf000000-1"),
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

/// What a server of a cloud would do.
fn user_data(agent_command: &[String], spec: PlatformSpec, site: &Site) -> Result<Outcome, Failure> {
    let here = match &site.reach {
        Some(Reach::At(url)) => url,
        _ => "https://MANAGER",
    };
    let source = match &site.agent {
        Some(_) => AgentSource::default(),
        None => AgentSource {
            url: format!("{here}/agent/HASH"),
            sha256: "HASH".to_owned(),
            arguments: smallest(agent_command).into_iter().skip(1).collect(),
        },
    };
    let request = AllocationRequest {
        tag: "pf000000-1".to_owned(),
        folder: String::new(),
        n_nodes: spec.n_nodes,
        capacity: spec.capacity,
        walltime: spec.walltime,
        join: JOIN.to_vec(),
    };
    show::print(&openstack::user_data(site, &source, &request))?;
    Ok(Outcome::Fine)
}

/// Our folder behind SSH, as far as the configuration says it.
fn folder_there(site: &Site) -> String {
    site.folder.clone().unwrap_or_else(|| "/home/USER/.pilotfish".to_owned())
}

/// Where pilots keep their files: [`manager::platforms::place::Place::ground`].
fn folder_of_pilots(site: &Site) -> String {
    match &site.ssh {
        Some(_) => format!("{}/pilots", folder_there(site)),
        None => site.folder.clone().unwrap_or_else(|| "/MANAGER/pilots".to_owned()),
    }
}

/// How the agent is run: the site's own, what is brought there, or what is here.
fn agent_command(here: Vec<String>, site: &Site) -> Vec<String> {
    match (&site.agent, &site.ssh) {
        (Some(agent), _) => vec![agent.clone()],
        (None, Some(_)) => vec![format!("{}/agent-HASH", folder_there(site))],
        (None, None) => here,
    }
}
