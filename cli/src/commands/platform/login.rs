//! `pilotfish platform login`: opens the SSH connection to a platform and answers what its host asks. A manager that
//! runs takes it over.

use std::sync::Arc;

use clap::Args;

use super::{Which, check};
use crate::{
    failure::{Failure, Outcome},
    interrupts::Interrupts,
    show,
    terminal::{self, Terminal},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform login centre
  pilotfish platform login centre --config centre.yaml --again
  pilotfish platform login centre --dir /srv/pilotfish
      # of the manager in that folder

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

/// Logs in.
///
/// # Errors
/// A configuration that is wrong, or has no such platform; a platform without SSH; no connection.
pub async fn run(args: &LoginArgs) -> Result<Outcome, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let folder = tempfile::Builder::new().prefix("pilotfish-login-").tempdir();
    let folder = folder.map_err(|error| Failure::file("make a folder in", &std::env::temp_dir(), &error))?;
    let (mut config, spec, site) = args.which.find(folder.path().join("manager")).await?;
    config.asker = Arc::new(Terminal { is_lent: true });
    let name = &args.which.name;
    let place = check::place(&config, &spec, &site);
    let (Some(ssh), Some(host)) = (place.as_ref().and_then(|place| place.ssh()), &site.ssh) else {
        return Err(Failure::bad_input(format!(
            "found no `ssh` of `{name}`; only a platform behind SSH has a connection to open"
        )));
    };
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
        Ok(_) => {
            let how = if is_open && !args.again { "was connected already" } else { "is connected" };
            show::print(&format!("{name} {how}: {host}; a manager that runs uses this connection\n"))?;
            Ok(Outcome::Fine)
        }
        Err(_) if terminal::is_interrupted() => Ok(Outcome::Interrupted),
        Err(error) => Err(Failure::infrastructure(format!("{name}: {error}"))),
    }
}
