//! Where an address leads: what the account's own configuration of OpenSSH says of it, asked of `ssh -G`,
//! which knows all its rules.

use std::{path::PathBuf, process::Command};

use super::SshError;

/// Jump hosts that have jump hosts: more is a loop.
const DEPTH_MAX: usize = 8;

/// A host to log in to, from here or from the one before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    /// Files of private keys, in the order in which they are tried.
    pub(crate) keys: Vec<PathBuf>,
    /// Whether the agent's keys are tried too.
    pub(crate) asks_agent: bool,
    /// Files that say which keys hosts have.
    pub(crate) known_hosts: Vec<PathBuf>,
    /// What carries the connection instead of TCP.
    pub(crate) proxy_command: Option<String>,
}

/// The hosts on the way to `[user@]host[:port]`, that one last; `config`: instead of `~/.ssh/config`.
pub(crate) fn route(address: &str, config: Option<&str>) -> Result<Vec<Hop>, SshError> {
    let mut hops = Vec::new();
    add_route(&mut hops, address, config, 0)?;
    Ok(hops)
}

fn add_route(hops: &mut Vec<Hop>, address: &str, config: Option<&str>, depth: usize) -> Result<(), SshError> {
    let unresolved = |why: String| SshError::Unresolved { address: address.to_owned(), why };
    if depth > DEPTH_MAX {
        return Err(unresolved("its jump hosts lead in a circle".into()));
    }
    let mut command = Command::new("ssh");
    command.arg("-G").args(config.into_iter().flat_map(|config| ["-F", config]));
    // As a URI, so that it can be no option.
    let output = command.arg(format!("ssh://{address}")).output();
    let output = output.map_err(|error| unresolved(format!("failed to run ssh -G: {error}")))?;
    if !output.status.success() {
        return Err(unresolved(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let said = Said(String::from_utf8_lossy(&output.stdout).into_owned());
    let jumps = said.all("proxyjump").find(|jumps| *jumps != "none").unwrap_or("");
    for jump in jumps.split(',').filter(|jump| !jump.is_empty()) {
        add_route(hops, jump, config, depth + 1)?;
    }
    let hop = said.hop().ok_or_else(|| unresolved("ssh -G named no host, port or user".into()))?;
    hops.push(hop);
    Ok(())
}

/// What `ssh -G` prints: a word of the configuration and its value a line.
struct Said(String);

impl Said {
    fn all<'s>(&'s self, word: &str) -> impl Iterator<Item = &'s str> {
        let lines = self.0.lines().filter_map(|line| line.split_once(' '));
        lines.filter(move |(first, _)| *first == word).map(|(_, value)| value.trim())
    }

    fn hop(&self) -> Option<Hop> {
        let one = |word: &str| self.all(word).next();
        let (host, port, user) = (one("hostname")?, one("port")?, one("user")?);
        let proxy = one("proxycommand").filter(|command| *command != "none");
        let agent = one("identityagent").unwrap_or("SSH_AUTH_SOCK");
        Some(Hop {
            host: host.to_owned(),
            port: port.parse().ok()?,
            user: user.to_owned(),
            keys: self.all("identityfile").map(in_home).collect(),
            asks_agent: one("identitiesonly") != Some("yes") && agent == "SSH_AUTH_SOCK",
            known_hosts: self
                .all("userknownhostsfile")
                .chain(self.all("globalknownhostsfile"))
                .flat_map(str::split_whitespace)
                .map(in_home)
                .collect(),
            proxy_command: proxy.map(|command| filled(command, host, port, user)),
        })
    }
}

/// A proxy's command line with its `%h`, `%p` and `%r` filled in.
fn filled(command: &str, host: &str, port: &str, user: &str) -> String {
    let mut parts = command.split('%');
    let mut line = parts.next().unwrap_or("").to_owned();
    while let Some(part) = parts.next() {
        let value = match part.chars().next() {
            Some('h' | 'n') => host,
            Some('p') => port,
            Some('r') => user,
            // `%%`
            _ => {
                line.push('%');
                line.push_str(parts.next().unwrap_or(""));
                continue;
            }
        };
        line.push_str(value);
        line.push_str(&part[1..]);
    }
    line
}

fn in_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(address: &str, lines: &str) -> Result<Vec<Hop>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("config");
        std::fs::write(&config, lines).expect("a configuration");
        route(address, config.to_str()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_configuration_says_of_a_host_holds() {
        let lines = "Host centre\n HostName login.centre.org\n User ada\n Port 2222\n IdentityFile /keys/a\n \
            IdentitiesOnly yes\n UserKnownHostsFile /known/a /known/b\n GlobalKnownHostsFile none\n";
        let hops = routed("centre", lines).expect("a route");
        let expected = Hop {
            host: "login.centre.org".into(),
            port: 2222,
            user: "ada".into(),
            keys: vec!["/keys/a".into()],
            asks_agent: false,
            known_hosts: vec!["/known/a".into(), "/known/b".into(), "none".into()],
            proxy_command: None,
        };
        assert_eq!(hops, [expected]);
        let hops = routed("bob@centre:23", lines).expect("a route");
        assert_eq!((hops[0].user.as_str(), hops[0].port), ("bob", 23), "what is said here goes first");
    }

    #[test]
    fn jump_hosts_come_first_each_with_its_own_configuration() {
        let lines = "Host inner\n ProxyJump door,hall:24\nHost door\n HostName door.org\n User guest\n";
        let hops = routed("ada@inner", lines).expect("a route");
        let ways: Vec<_> = hops.iter().map(|hop| (hop.host.as_str(), hop.port)).collect();
        assert_eq!(ways, [("door.org", 22), ("hall", 24), ("inner", 22)]);
        assert_eq!(hops[0].user, "guest");
    }

    #[test]
    fn a_proxy_is_told_who_is_meant() {
        let hops = routed("ada@inner", "Host inner\n HostName in.org\n ProxyCommand nc -x %r%%a%%:1 %h %p\n");
        let proxy = hops.expect("a route")[0].proxy_command.clone();
        assert_eq!(proxy.as_deref(), Some("nc -x ada%a%:1 in.org 22"));
    }

    #[test]
    fn circles_and_nonsense_are_told() {
        let circle = routed("a", "Host a\n ProxyJump b\nHost b\n ProxyJump a\n").expect_err("a circle");
        assert!(circle.contains("circle"), "{circle}");
        let nonsense = routed("a", "Host a\n Pott 22\n").expect_err("nonsense");
        assert!(nonsense.to_lowercase().contains("pott"), "{nonsense}");
    }
}
