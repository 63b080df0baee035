//! `pilotfish platform login`: opens the SSH connection to a platform or a store and answers what its host asks. A manager
//! that runs takes it over.

use std::{path::Path, sync::Arc};

use adapters::transport::Ssh;
use clap::Args;
use manager::config::Config;
use profiles::{site::SshProgram, store::StoreKind};

use super::{Which, not_in};
use crate::{
    failure::{Failure, Outcome},
    show,
    sys::{
        interrupts::Interrupts,
        terminal::{self, Terminal},
    },
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform login centre
  pilotfish platform login centre --config centre.yaml --again
  pilotfish platform login centre --dir /srv/pilotfish
      # of the manager in that folder
  pilotfish platform login fileserver
      # a store of kind sftp

Run it in any terminal of this host, before the manager starts or while it runs.
A manager that runs takes the connection over within a second or two and keeps
it. It stays for an hour after its last use, or as long as ControlPersist in
~/.ssh/config says.

Exit codes: 0 connected, 2 what was given cannot be used, 3 the host does not
let us in, 130 interrupted.";

/// Where to.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LoginArgs {
    #[command(flatten)]
    which: Which,
    /// Close an open connection, and open another
    #[arg(long)]
    again: bool,
}

/// How a host is reached.
#[derive(Clone, PartialEq, Eq)]
struct Way {
    ssh: String,
    ssh_config: Option<String>,
    transport: Option<SshProgram>,
}

/// Logs in.
///
/// # Errors
/// A configuration that is wrong, or has neither such a platform nor such a store; none behind SSH; no connection.
pub async fn run(args: &LoginArgs) -> Result<Outcome, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let folder = tempfile::Builder::new().prefix("pilotfish-login-").tempdir();
    let folder = folder.map_err(|error| Failure::file("make a folder in", &std::env::temp_dir(), &error))?;
    let (path, config) = args.which.load(folder.path().join("manager")).await?;
    let name = &args.which.name;
    for Way { ssh: host, ssh_config, transport } in ways(&path, &config, name)? {
        let ssh = Ssh::new(host.clone(), ssh_config, transport, Arc::new(Terminal { is_lent: true }));
        if !ssh.is_shared() {
            return Err(Failure::bad_input(format!(
                "found the transport libssh2 of `{name}`, whose connections cannot be handed over; write `transport: openssh`"
            )));
        }
        let is_open = ssh.is_open().await;
        if is_open && args.again {
            ssh.close().await;
        }
        let connected = tokio::select! {
            connected = ssh.log_in() => connected,
            _ = interrupts.next() => return Ok(Outcome::Interrupted),
        };
        match connected {
            Ok(_) => {}
            Err(_) if terminal::is_interrupted() => return Ok(Outcome::Interrupted),
            Err(error) => return Err(Failure::infrastructure(format!("{name}: {error}"))),
        }
        let how = if is_open && !args.again { "was connected already" } else { "is connected" };
        show::print(&format!("{name} {how}: {host}; a manager that runs uses this connection\n"))?;
    }
    Ok(Outcome::Fine)
}

/// How the hosts are reached that have this name: a platform's, a store's, or both.
fn ways(path: &Path, config: &Config, name: &str) -> Result<Vec<Way>, Failure> {
    let platform = config.platforms.iter().find(|(spec, _)| spec.name == name);
    let store = config.stores.iter().find(|store| store.name == name);
    if platform.is_none() && store.is_none() {
        let mut names: Vec<String> = config.platforms.iter().map(|(spec, _)| spec.name.clone()).collect();
        if config.stores.is_empty() {
            return Err(not_in(path, ("platform", name), &names));
        }
        names.extend(config.stores.iter().map(|store| store.name.clone()));
        return Err(not_in(path, ("platform or store", name), &names));
    }
    let of_platform = platform.and_then(|(_, site)| {
        let (ssh_config, transport) = (site.ssh_config.clone(), site.transport);
        Some(Way { ssh: site.ssh.clone()?, ssh_config, transport })
    });
    let of_store = store.and_then(|store| match store.kind.clone() {
        StoreKind::Sftp { ssh, ssh_config, transport } => Some(Way { ssh, ssh_config, transport }),
        StoreKind::S3 { .. } | StoreKind::Swift { .. } | StoreKind::Http { .. } => None,
    });
    let mut ways: Vec<Way> = of_platform.into_iter().chain(of_store).collect();
    ways.dedup();
    match ways.is_empty() {
        true => Err(Failure::bad_input(format!(
            "found no `ssh` of `{name}`; only a platform behind SSH, or a store of kind sftp, has a connection to open"
        ))),
        false => Ok(ways),
    }
}

#[cfg(test)]
mod tests {
    use manager::config::file::ManagerFile;

    use super::{Path, Way, ways};
    use crate::in_process;

    /// The hosts that a name leads to, or what is wrong.
    fn hosts(file: &str, name: &str) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("manager.yaml");
        std::fs::write(&path, file).expect("a file");
        let file = ManagerFile::load(&path).expect("a configuration");
        let mut config = in_process::config(folder.path().join("m")).expect("a configuration");
        config.apply(&file, &in_process::host_capacity()).expect("a configuration");
        match ways(Path::new("manager.yaml"), &config, name) {
            Ok(ways) => Ok(ways.into_iter().map(|Way { ssh, .. }| ssh).collect()),
            Err(failure) => Err(format!("{failure:?}")),
        }
    }

    #[test]
    fn a_store_of_a_host_is_entered_by_its_name_as_a_platform_is() {
        let file = "platforms:\n  - {name: here, adapter: local}\n  - {name: far, adapter: hosts, ssh: a, cores: 1}\n  \
                    - {name: both, adapter: hosts, ssh: b, cores: 1}\n  - {name: one, adapter: hosts, ssh: d, cores: 1}\n\
                    stores:\n  - {name: files, kind: sftp, ssh: ada@f}\n  - {name: both, kind: sftp, ssh: c}\n  \
                    - {name: one, kind: sftp, ssh: d}\n  - {name: here, kind: sftp, ssh: h}\n  \
                    - {name: web, kind: http, endpoint: 'https://h.org/'}\n";
        for (name, expected) in [
            ("far", &["a"][..]),
            ("files", &["ada@f"]),
            ("both", &["b", "c"]),
            ("one", &["d"]),
            ("here", &["h"]),
        ] {
            assert_eq!(hosts(file, name).expect("hosts"), expected, "{name}");
        }
        for (name, words) in
            [("web", "a store of kind sftp"), ("file", "no platform or store `file`; did you mean `files`?")]
        {
            let said = hosts(file, name).expect_err("none");
            assert!(said.contains(words), "{name}: {said}");
        }
    }
}
