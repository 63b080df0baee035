//! Finds where an address leads: asks `ssh -G` what the account's own configuration of OpenSSH says of it.

use std::{io::ErrorKind, path::PathBuf, process::Command};

use super::{
    SshError,
    address::Address,
    tokens::{self, Values},
};

/// Jump hosts that have jump hosts: more is a loop.
const DEPTH_MAX: usize = 8;

/// A host to log in to, from here or from the one before it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Hop {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    /// The command by which a person logs in there, so that the same part of the configuration counts.
    pub(crate) by_hand: String,
    /// The name by which known_hosts files know it, if it is another (HostKeyAlias).
    pub(crate) alias: Option<String>,
    /// Files of private keys, or of public keys whose private ones an agent has, in the order in which they are tried.
    pub(crate) keys: Vec<PathBuf>,
    /// Files of user certificates.
    pub(crate) certificates: Vec<PathBuf>,
    /// Whether keys of the agent that no file names are left out.
    pub(crate) is_files_only: bool,
    /// The agent's socket; `None`: no agent is asked.
    pub(crate) agent: Option<PathBuf>,
    /// Files that say which keys hosts have.
    pub(crate) known_hosts: Vec<PathBuf>,
    /// Files of keys that no host may show.
    pub(crate) revoked_keys: Vec<PathBuf>,
    /// The kinds of keys that hosts may show; empty: any.
    pub(crate) host_key_types: Vec<String>,
    /// RSA keys of hosts have so many bits at least.
    pub(crate) rsa_bits_min: usize,
    /// Whether a program says, too, which keys hosts have (KnownHostsCommand).
    pub(crate) has_known_hosts_command: bool,
    /// Whether DNS may say which keys hosts have (VerifyHostKeyDNS).
    pub(crate) is_known_by_dns: bool,
    /// Whether the key must not differ from that which known_hosts files have for the host's address (CheckHostIP).
    pub(crate) is_checked_by_address: bool,
    /// What carries the connection instead of TCP.
    pub(crate) proxy_command: Option<String>,
}

/// Returns the hosts on the way to `[user@]host[:port]`, that one last; `config`: instead of `~/.ssh/config`.
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
    let destination = Address::read(address).map_err(unresolved)?;
    let said = match said(&destination, config) {
        Ok(said) => said,
        Err(Unsaid::NoProgram) => {
            let hop = without_program(&destination, config).map_err(unresolved)?;
            hops.push(hop);
            return Ok(());
        }
        Err(Unsaid::Other(why)) => return Err(unresolved(why)),
    };
    let jumps = said.all("proxyjump").find(|jumps| *jumps != "none").unwrap_or("");
    for jump in jumps.split(',').filter(|jump| !jump.is_empty()) {
        add_route(hops, jump, config, depth + 1)?;
    }
    let hop = said.hop(&destination, config).map_err(unresolved)?;
    hops.push(hop);
    Ok(())
}

/// Why `ssh -G` said nothing.
pub(super) enum Unsaid {
    /// There is no program `ssh`.
    NoProgram,
    Other(String),
}

/// Asks `ssh -G` what the configuration says of an address.
pub(super) fn said(address: &Address, config: Option<&str>) -> Result<Said, Unsaid> {
    match said_with(address, config, &[]) {
        // With ForkAfterAuthentication `ssh` wants a command. With RemoteCommand it takes none, and wants none.
        Err(Unsaid::Other(why)) if why.contains("without a command") => said_with(address, config, &["true"]),
        said => said,
    }
}

fn said_with(address: &Address, config: Option<&str>, command_there: &[&str]) -> Result<Said, Unsaid> {
    let mut command = Command::new("ssh");
    command.arg("-G").args(config.into_iter().flat_map(|config| ["-F", config])).args(address.words());
    let output = command.args(command_there).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Unsaid::NoProgram,
        _ => Unsaid::Other(format!("failed to run ssh -G: {error}")),
    })?;
    if !output.status.success() {
        return Err(Unsaid::Other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(Said(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// What OpenSSH would do by default. A configuration is refused, as only `ssh -G` reads it.
fn without_program(address: &Address, config: Option<&str>) -> Result<Hop, String> {
    let home = std::env::home_dir().ok_or("found no home folder")?;
    let own = home.join(".ssh/config");
    let config = config.map(PathBuf::from).or_else(|| own.exists().then_some(own));
    if let Some(config) = config {
        return Err(format!(
            "there is {}, and no program `ssh` to read it; install OpenSSH's client",
            config.display()
        ));
    }
    let user = address.user.clone().or_else(|| std::env::var("USER").ok());
    let below_home =
        |names: &[&str]| names.iter().map(|name| home.join(".ssh").join(name)).collect::<Vec<_>>();
    let mut known_hosts = below_home(&["known_hosts", "known_hosts2"]);
    known_hosts.extend(["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"].map(PathBuf::from));
    Ok(Hop {
        by_hand: address.by_hand(),
        host: address.host.clone(),
        port: address.port.unwrap_or(22),
        user: user.ok_or("found no user; write the address as user@host")?,
        keys: below_home(&["id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"]),
        agent: std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from),
        known_hosts,
        ..Hop::default()
    })
}

/// What `ssh -G` prints: a word of the configuration and its value a line.
pub(super) struct Said(pub(super) String);

impl Said {
    pub(super) fn all<'s>(&'s self, word: &str) -> impl Iterator<Item = &'s str> {
        let lines = self.0.lines().filter_map(|line| line.split_once(' '));
        lines.filter(move |(first, _)| *first == word).map(|(_, value)| value.trim())
    }

    pub(super) fn one(&self, word: &str) -> Option<&str> {
        self.all(word).next()
    }

    /// The hop to the host of this address, as the configuration describes it.
    fn hop(&self, called: &Address, config: Option<&str>) -> Result<Hop, String> {
        let needed = |word: &str| self.one(word).ok_or(format!("ssh -G named no {word}"));
        let (host, port, user) = (needed("hostname")?, needed("port")?, needed("user")?);
        let set = |word: &str| self.one(word).filter(|value| *value != "none");
        let alias = set("hostkeyalias");
        let values = Values { name: &called.host, host, port, user, alias, jump: set("proxyjump") };
        let path = |text: &str| values.path(text);
        let paths = |word: &str| -> Result<Vec<PathBuf>, String> {
            self.all(word).filter(|text| *text != "none").map(path).collect()
        };
        // A line may have several paths.
        let each_path = |word: &str| -> Result<Vec<PathBuf>, String> {
            let mut all = Vec::new();
            for text in self.all(word) {
                for text in tokens::split_paths(text, |text| path(text).is_ok_and(|path| path.exists())) {
                    all.push(path(&text)?);
                }
            }
            Ok(all)
        };
        let mut known_hosts = each_path("userknownhostsfile")?;
        known_hosts.extend(each_path("globalknownhostsfile")?);
        let mut revoked_keys = each_path("revokedhostkeys")?;
        revoked_keys.retain(|file| file.as_os_str() != "none");
        // Old programs print what is to be added to their own list, which they do not print.
        let host_key_types =
            self.one("hostkeyalgorithms").filter(|types| !types.starts_with(['+', '-', '^']));
        let agent = match self.one("identityagent").unwrap_or("SSH_AUTH_SOCK") {
            "none" => None,
            "SSH_AUTH_SOCK" => std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from),
            text => match text.strip_prefix('$').filter(|name| !name.starts_with('{')) {
                Some(name) => std::env::var_os(name).map(PathBuf::from),
                None => Some(path(text)?),
            },
        };
        let proxy = set("proxycommand").map(|command| values.filled(command)).transpose()?;
        Ok(Hop {
            by_hand: called.by_hand_with(config),
            host: host.to_owned(),
            port: port.parse().map_err(|_| format!("ssh -G named port {port}"))?,
            user: user.to_owned(),
            alias: alias.map(str::to_owned),
            keys: paths("identityfile")?,
            certificates: paths("certificatefile")?,
            is_files_only: self.one("identitiesonly") == Some("yes"),
            agent,
            known_hosts,
            revoked_keys,
            host_key_types: host_key_types
                .into_iter()
                .flat_map(|types| types.split(','))
                .map(str::to_owned)
                .collect(),
            rsa_bits_min: self.one("requiredrsasize").and_then(|bits| bits.parse().ok()).unwrap_or(0),
            has_known_hosts_command: set("knownhostscommand").is_some(),
            is_known_by_dns: self
                .one("verifyhostkeydns")
                .is_some_and(|value| ["true", "yes"].contains(&value)),
            is_checked_by_address: self
                .one("checkhostip")
                .is_some_and(|value| ["true", "yes"].contains(&value)),
            proxy_command: proxy,
        })
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
            IdentitiesOnly yes\n UserKnownHostsFile /known/a /known/b\n GlobalKnownHostsFile none\n \
            HostKeyAlias farm\n CertificateFile /keys/%r-cert.pub\n IdentityAgent /run/%u/agent\n \
            RevokedHostKeys /known/revoked\n KnownHostsCommand /bin/keys %H\n VerifyHostKeyDNS yes\n CheckHostIP yes\n \
            HostKeyAlgorithms ssh-ed25519,rsa-sha2-512\n";
        let hops = routed("centre", lines).expect("a route");
        let local = tokens::local_user();
        assert!(hops[0].by_hand.starts_with("ssh -F ") && hops[0].by_hand.ends_with(" centre"), "{hops:?}");
        let expected = Hop {
            host: "login.centre.org".into(),
            port: 2222,
            user: "ada".into(),
            by_hand: hops[0].by_hand.clone(),
            alias: Some("farm".into()),
            keys: vec!["/keys/a".into()],
            certificates: vec!["/keys/ada-cert.pub".into()],
            is_files_only: true,
            agent: Some(format!("/run/{local}/agent").into()),
            known_hosts: vec!["/known/a".into(), "/known/b".into(), "none".into()],
            revoked_keys: vec!["/known/revoked".into()],
            host_key_types: vec!["ssh-ed25519".into(), "rsa-sha2-512".into()],
            // Programs before 9.1 have none.
            rsa_bits_min: hops[0].rsa_bits_min,
            has_known_hosts_command: true,
            is_known_by_dns: true,
            is_checked_by_address: true,
            proxy_command: None,
        };
        assert_eq!(hops, [expected]);
        let hops = routed("bob@centre:23", lines).expect("a route");
        assert_eq!((hops[0].user.as_str(), hops[0].port), ("bob", 23), "what is said here goes first");
    }

    #[test]
    fn addresses_of_ipv6_lead_there() {
        for (address, port) in [("ada@[::1]:2222", 2222), ("ada@[::1]", 22), ("ada@::1", 22)] {
            let hops = routed(address, "").expect(address);
            assert_eq!((hops[0].host.as_str(), hops[0].port, hops[0].user.as_str()), ("::1", port, "ada"));
        }
    }

    #[test]
    fn tokens_and_variables_in_paths_are_filled_in() {
        let home = std::env::home_dir().expect("a home").display().to_string();
        let lines = "Host in\n HostName in.org\n User ada\n IdentityFile ~/%n/%r@%h-%p\n \
            IdentityFile ${HOME}/key%%\n IdentityFile %d/key\n";
        let hops = routed("in:23", lines).expect("a route");
        let expected = [format!("{home}/in/ada@in.org-23"), format!("{home}/key%"), format!("{home}/key")];
        assert_eq!(hops[0].keys, expected.map(PathBuf::from));
        let error = routed("in", "IdentityFile ${NO_SUCH_VARIABLE_HERE}/a\n").expect_err("no variable");
        assert!(error.contains("NO_SUCH_VARIABLE_HERE"), "{error}");
    }

    #[test]
    fn paths_with_blanks_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let blank = folder.path().join("my files");
        std::fs::create_dir(&blank).expect("a folder");
        std::fs::write(blank.join("kh"), "").expect("a file");
        let file = blank.join("kh");
        let lines =
            format!("UserKnownHostsFile \"{}\" /known/b\nGlobalKnownHostsFile none\n", file.display());
        let hops = routed("host", &lines).expect("a route");
        assert_eq!(hops[0].known_hosts, [file, "/known/b".into(), "none".into()]);
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
        let hops =
            routed("ada@inner", "Host inner\n HostName in.org\n ProxyCommand nc -x %r%%a%%:1 %h %p %n\n");
        let proxy = hops.expect("a route")[0].proxy_command.clone();
        assert_eq!(proxy.as_deref(), Some("nc -x ada%a%:1 in.org 22 inner"));
    }

    #[test]
    fn circles_and_nonsense_are_told() {
        let circle = routed("a", "Host a\n ProxyJump b\nHost b\n ProxyJump a\n").expect_err("a circle");
        assert!(circle.contains("circle"), "{circle}");
        let nonsense = routed("a", "Host a\n Pott 22\n").expect_err("nonsense");
        assert!(nonsense.to_lowercase().contains("pott"), "{nonsense}");
    }
}
