//! Runs commands on this host as another account, so that tasks cannot read what the manager keeps.

use std::{
    ffi::OsStr,
    fs::DirBuilder,
    os::unix::fs::{DirBuilderExt, chown},
    path::Path,
    time::Duration,
};

use async_trait::async_trait;
use nix::unistd::{Uid, User};

use super::{Transport, TransportError, local};
use crate::command::{Command, Output};

/// Variables of the manager's that are the host's, not its user's.
const OF_HOST: [&str; 5] = ["LANG", "LANGUAGE", "NO_PROXY", "PATH", "TZ"];

/// To start a command that does nothing.
const CHECK_LIMIT: Duration = Duration::from_secs(30);

/// Another account of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    name: String,
    home: String,
    shell: String,
    uid: u32,
    gid: u32,
    /// Whether this process is root, which needs nobody's leave.
    is_root: bool,
}

impl Account {
    /// The account of this name.
    ///
    /// # Errors
    /// There is none, or it is the one that this process has: in words.
    pub fn of(name: &str) -> Result<Account, String> {
        let found = User::from_name(name)
            .map_err(|error| format!("account `{name}` cannot be looked up: {error}"))?;
        let user = found.ok_or_else(|| format!("this host has no account `{name}`"))?;
        if user.uid == Uid::effective() {
            return Err(format!("account `{name}` is the manager's own; name another one"));
        }
        if user.uid.is_root() {
            return Err(format!("account `{name}` is root, which may read everything; name another one"));
        }
        let (home, shell) =
            (user.dir.to_string_lossy().into_owned(), user.shell.to_string_lossy().into_owned());
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        Ok(Account { name: user.name, home, shell, uid, gid, is_root: Uid::effective().is_root() })
    }

    /// Makes a folder for the account, where this process may and it is missing; one that is there stays as it is.
    ///
    /// # Errors
    /// In words.
    pub fn give_folder(&self, folder: &str) -> Result<(), String> {
        if !self.is_root || Path::new(folder).exists() {
            return Ok(());
        }
        let made = DirBuilder::new().mode(0o700).create(folder);
        made.and_then(|()| chown(folder, Some(self.uid), Some(self.gid)))
            .map_err(|error| format!("folder {folder} cannot be made for account {}: {error}", self.name))
    }

    /// Sees whether commands can be run in the account.
    ///
    /// # Errors
    /// In words.
    pub async fn check(&self) -> Result<(), String> {
        let argv = vec!["true".to_owned()];
        let command = Command { name: "true".to_owned(), argv, stdin: Vec::new(), time_limit: CHECK_LIMIT };
        let why = match self.run(&command).await {
            Ok(output) if output.code == Some(0) => return Ok(()),
            Ok(output) => output.words(),
            Err(error) => error.to_string(),
        };
        let name = &self.name;
        let ways = match self.is_root {
            true => String::new(),
            false => format!(
                "; start the manager as root, or let its account run everything as {name}: `sudo -n -u {name} true` \
                 must succeed"
            ),
        };
        Err(format!("nothing can be run as account `{name}`: {why}{ways}"))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same command in this account: by `runuser` where this process is root, else by `sudo` without a password. It
    /// gets a few variables of the host, and none of the manager's own.
    fn command(&self, command: &Command, of_host: impl Iterator<Item = (String, String)>) -> Command {
        let way: &[&str] = if self.is_root { &["runuser", "-u"] } else { &["sudo", "-n", "-u"] };
        let mut argv: Vec<String> = way.iter().map(|word| (*word).to_owned()).collect();
        argv.extend([self.name.clone(), "--".to_owned(), "env".to_owned(), "-i".to_owned()]);
        argv.extend(of_host.map(|(name, value)| format!("{name}={value}")));
        for (name, value) in
            [("HOME", &self.home), ("USER", &self.name), ("LOGNAME", &self.name), ("SHELL", &self.shell)]
        {
            argv.push(format!("{name}={value}"));
        }
        argv.extend(command.argv.iter().cloned());
        Command { argv, ..command.clone() }
    }
}

fn is_of_host(name: &str) -> bool {
    OF_HOST.contains(&name) || name.starts_with("LC_")
}

#[async_trait]
impl Transport for Account {
    async fn run(&self, command: &Command) -> Result<Output, TransportError> {
        let of_host = std::env::vars().filter(|(name, _)| is_of_host(name));
        // `runuser` or `sudo`, which starts the command, gets only these of the manager's variables, too.
        let has = |name: &OsStr| name.to_str().is_some_and(is_of_host);
        local::run_in("/", &self.command(command, of_host), has, None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(is_root: bool) -> Account {
        let text = str::to_owned;
        let (home, shell) = (text("/home/pilots"), text("/bin/sh"));
        Account { name: text("pilots"), home, shell, uid: 7, gid: 7, is_root }
    }

    fn words(is_root: bool) -> String {
        let argv = vec!["agent".to_owned(), "list".to_owned()];
        let name = "the agent".to_owned();
        let command = Command { name, argv, stdin: b"x".to_vec(), time_limit: Duration::from_secs(1) };
        let of_host = [("PATH".to_owned(), "/usr/bin".to_owned())];
        let command = account(is_root).command(&command, of_host.into_iter());
        assert_eq!(command.stdin, b"x");
        command.argv.join(" ")
    }

    #[test]
    fn a_command_runs_in_the_account_with_its_home_and_none_of_the_managers_variables() {
        let rest = "pilots -- env -i PATH=/usr/bin HOME=/home/pilots USER=pilots LOGNAME=pilots SHELL=/bin/sh agent list";
        assert_eq!(words(true), format!("runuser -u {rest}"));
        assert_eq!(words(false), format!("sudo -n -u {rest}"));
    }

    #[test]
    fn an_account_that_is_none_or_the_managers_own_is_refused() {
        let own = User::from_uid(Uid::effective()).expect("a lookup").map(|user| user.name);
        if let Some(own) = own {
            assert!(Account::of(&own).expect_err("its own").contains("the manager's own"));
        }
        assert_eq!(
            Account::of("no-such-account").expect_err("none"),
            "this host has no account `no-such-account`"
        );
    }

    #[tokio::test]
    async fn root_runs_commands_as_another_account() {
        if !Uid::effective().is_root() {
            return;
        }
        let Ok(nobody) = Account::of("nobody") else { return };
        let argv = ["sh", "-c", "id -un; pwd; echo ${HOME-none} ${PILOTFISH_X-none}; cat"].map(str::to_owned);
        let (name, argv, stdin) = ("sh".to_owned(), argv.to_vec(), b"said".to_vec());
        let command = Command { name, argv, stdin, time_limit: Duration::from_secs(60) };
        let output = nobody.run(&command).await.expect("it runs");
        assert_eq!((output.code, output.stdout), (Some(0), format!("nobody\n/\n{} none\nsaid", nobody.home)));
    }
}
