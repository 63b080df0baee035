//! Finds where an address leads: asks `ssh -G` what the account's own configuration of OpenSSH says of it.

use std::{io::ErrorKind, path::PathBuf, process::Command};

use super::{
    SshError,
    address::Address,
    tokens::{self, Values},
};

/// No way leads through more jump hosts. Names that grow (`ProxyJump gate-%h` for all hosts) never come again.
const N_JUMPS_MAX: usize = 32;
/// So many of them are named.
const N_NAMES_SHOWN: usize = 4;
/// Said where nothing can be asked.
pub(super) const NO_PROGRAM: &str = "there is no program `ssh`; install OpenSSH's client";

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
    let unresolved = |why: String| SshError::Unresolved { address: address.to_owned(), why };
    let destination = Address::read(address).map_err(unresolved)?;
    let said = match said(&destination, config) {
        Ok(said) => said,
        Err(Unsaid::NoProgram) => {
            return Ok(vec![without_program(&destination, config).map_err(unresolved)?]);
        }
        Err(Unsaid::Other(why)) => return Err(unresolved(why)),
    };
    let mut way = jumps(&destination, &said, config)?;
    way.reverse();
    way.push((destination, said));
    way.iter().map(|(address, said)| said.hop(address, config).map_err(unresolved)).collect()
}

/// A host on the way, as `ssh` is told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Told {
    address: Address,
    /// The jump hosts before it (`-J`). Without them its own part of the configuration says whether there are some.
    before: Option<String>,
}

impl Told {
    fn of(address: &Address) -> Told {
        Told { address: address.clone(), before: None }
    }

    /// The jump host that `ssh` starts itself for, to get here: the last of those that are said. `None`: there is none.
    fn jump(&self, said: &Said) -> Result<Option<Told>, String> {
        let Some(jump) = said.one("proxyjump").filter(|jump| !jump.is_empty() && *jump != "none") else {
            return Ok(None);
        };
        let one = |word: &str| said.one(word).unwrap_or_default();
        let (host, port, user) = (one("hostname"), one("port"), one("user"));
        let values = Values { name: &self.address.host, host, port, user, alias: None, jump: None };
        let jump = values.filled(jump)?;
        let (before, last) = match jump.rsplit_once(',') {
            Some((before, last)) => (Some(before.to_owned()), last),
            None => (None, jump.as_str()),
        };
        Ok(Some(Told { address: Address::read(last)?, before }))
    }
}

/// The jump hosts of an address of which that is said, the last one first, each with what `ssh -G` says of it. `ssh`
/// itself sees only the shortest of circles: in a longer one it would start itself again without end.
///
/// # Errors
/// They lead in a circle, or `ssh` does not take one of them.
fn jumps(
    address: &Address,
    said_of_it: &Said,
    config: Option<&str>,
) -> Result<Vec<(Address, Said)>, SshError> {
    let unresolved = |address: &Address, why: String| SshError::Unresolved { address: address.shown(), why };
    let circle = |way: &[Told], why: String| {
        let names: Vec<String> = way.iter().map(|told| told.address.shown()).collect();
        let names = names.join(", ");
        unresolved(
            address,
            format!(
                "its jump hosts lead in a circle ({names}{why}); write `ProxyJump none` in the ssh configuration for the \
                 host that is reached without one"
            ),
        )
    };
    let mut way = vec![Told::of(address)];
    let mut jumps: Vec<(Address, Said)> = Vec::new();
    loop {
        let said = jumps.last().map_or(said_of_it, |(_, said)| said);
        let Some(last) = way.last() else { return Ok(jumps) };
        let next = last.jump(said).map_err(|why| unresolved(&last.address, why))?;
        let Some(next) = next else { return Ok(jumps) };
        let is_again = way.contains(&next);
        way.push(next.clone());
        if is_again {
            return Err(circle(&way, String::new()));
        }
        if way.len() > N_JUMPS_MAX {
            way.truncate(N_NAMES_SHOWN);
            return Err(circle(&way, format!(" and more than {N_JUMPS_MAX} in all")));
        }
        let words: Vec<&str> = next.before.iter().flat_map(|before| ["-J", before.as_str()]).collect();
        let said = said_as(&next.address, config, &words).map_err(|why| match why {
            Unsaid::NoProgram => unresolved(&next.address, NO_PROGRAM.to_owned()),
            // It is what `ssh` says of the shortest of circles.
            Unsaid::Other(why) if why.contains("jumphost loop") => circle(&way, format!(": {why}")),
            Unsaid::Other(why) => unresolved(&next.address, why),
        })?;
        jumps.push((next.address, said));
    }
}

/// Whether jump hosts lead there, and not in a circle. Errors: what is wrong with them.
pub(super) fn check_jumps(address: &Address, said: &Said, config: Option<&str>) -> Result<(), SshError> {
    jumps(address, said, config).map(drop)
}

/// Why `ssh -G` said nothing.
pub(super) enum Unsaid {
    /// There is no program `ssh`.
    NoProgram,
    Other(String),
}

/// Asks `ssh -G` what the configuration says of an address.
pub(super) fn said(address: &Address, config: Option<&str>) -> Result<Said, Unsaid> {
    said_as(address, config, &[])
}

/// The same with more words for `ssh`.
fn said_as(address: &Address, config: Option<&str>, words: &[&str]) -> Result<Said, Unsaid> {
    match said_with(address, config, words, &[]) {
        // With ForkAfterAuthentication `ssh` wants a command. With RemoteCommand it takes none, and wants none.
        Err(Unsaid::Other(why)) if why.contains("without a command") => {
            said_with(address, config, words, &["true"])
        }
        said => said,
    }
}

fn said_with(
    address: &Address,
    config: Option<&str>,
    words: &[&str],
    command_there: &[&str],
) -> Result<Said, Unsaid> {
    let mut command = Command::new("ssh");
    command.arg("-G").args(config.into_iter().flat_map(|config| ["-F", config]));
    command.args(words).args(address.words());
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
#[derive(Clone)]
pub(super) struct Said(pub(super) String);

impl Said {
    pub(super) fn all<'s>(&'s self, word: &str) -> impl Iterator<Item = &'s str> {
        let lines = self.0.lines().filter_map(|line| line.split_once(' '));
        lines.filter(move |(first, _)| *first == word).map(|(_, value)| value.trim())
    }

    pub(super) fn one(&self, word: &str) -> Option<&str> {
        self.all(word).next()
    }

    /// The jump host that is asked to lead there, without its user and port.
    pub(super) fn jump_host(&self) -> Option<String> {
        let jump = self.one("proxyjump").filter(|jump| *jump != "none")?;
        let last = jump.rsplit_once(',').map_or(jump, |(_, last)| last);
        Address::read(last).ok().map(|address| address.host)
    }

    /// The hop to the host of this address, as the configuration describes it.
    fn hop(&self, called: &Address, config: Option<&str>) -> Result<Hop, String> {
        let needed = |word: &str| self.one(word).ok_or(format!("ssh -G named no {word}"));
        let (host, port, user) = (needed("hostname")?, needed("port")?, needed("user")?);
        let set = |word: &str| self.one(word).filter(|value| *value != "none");
        let alias = set("hostkeyalias");
        let jump = self.jump_host();
        let values = Values { name: &called.host, host, port, user, alias, jump: jump.as_deref() };
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
        let lines = "Host In\n HostName in.org\n IdentityFile /%k/%n\nHost other\n HostKeyAlias farm\n IdentityFile /%k\n";
        assert_eq!(routed("In", lines).expect("a route")[0].keys, [PathBuf::from("/In/In")]);
        assert_eq!(routed("other", lines).expect("a route")[0].keys, [PathBuf::from("/farm")]);
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
        for (title, address, lines) in [
            ("two", "a", "Host a\n ProxyJump b\nHost b\n ProxyJump a\n"),
            // `ssh` compares the jump host with HostName, and does not see these.
            ("another HostName", "a", "Host a\n HostName a.org\n ProxyJump a\n"),
            ("for all hosts", "centre", "Host gate\n HostName gate.org\nHost *\n ProxyJump gate\n"),
            ("later", "a", "Host a\n ProxyJump b\nHost b\n ProxyJump c,d\nHost c\n ProxyJump b\n"),
            ("users and ports", "a", "Host a b\n ProxyJump ada@b:23\n"),
            // These it sees.
            ("itself", "a", "Host a\n ProxyJump a\n"),
            ("itself for all hosts", "centre", "Host *\n ProxyJump gate\n"),
            ("names that grow", "a", "Host *\n ProxyJump b%h\n"),
        ] {
            let circle = routed(address, lines).expect_err(title);
            let is_told = circle.contains("circle") || circle.contains("jumphost loop");
            assert!(is_told && circle.len() < 500, "{title}: {circle}");
        }
        let circle = routed("centre", "Host gate\n HostName gate.org\nHost *\n ProxyJump gate\n")
            .expect_err("a circle");
        assert!(
            circle.contains("found no way to centre: its jump hosts lead in a circle (centre, gate, gate)")
        );
        let nonsense = routed("a", "Host a\n Pott 22\n").expect_err("nonsense");
        assert!(nonsense.to_lowercase().contains("pott"), "{nonsense}");
    }

    #[test]
    fn what_looks_like_a_circle_and_is_none_leads_there() {
        let ways = |address: &str, lines: &str| {
            let hops = routed(address, lines).expect(lines);
            hops.into_iter().map(|hop| format!("{}@{}:{}", hop.user, hop.host, hop.port)).collect::<Vec<_>>()
        };
        let all = "Host *\n User u\n ProxyJump gate\n";
        let none = format!("Host gate\n HostName gate.org\n ProxyJump none\n{all}");
        assert_eq!(ways("centre", &none), ["u@gate.org:22", "u@centre:22"]);
        assert_eq!(ways("gate", &none), ["u@gate.org:22"]);
        let by_command = format!("Host gate\n ProxyCommand nc %h %p\n{all}");
        assert_eq!(ways("centre", &by_command), ["u@gate:22", "u@centre:22"]);
        // Of a list only the first one's own jump hosts count.
        let list = "Host a\n ProxyJump b,c\nHost c\n ProxyJump c2\nHost b\n ProxyJump b2\nHost *\n User u\n";
        assert_eq!(ways("a", list), ["u@b2:22", "u@b:22", "u@c:22", "u@a:22"]);
        let back = "Host a\n ProxyJump b,a\nHost *\n User u\n";
        assert!(routed("a", back).is_err(), "ssh refuses it");
        // Another user or port is another way.
        let other = "Host *\n User u\nMatch host a user u\n ProxyJump v@a:23\n";
        assert_eq!(ways("a", other), ["v@a:23", "u@a:22"]);
        let other = "Host a\n HostName a.org\n ProxyJump a.org:23\nHost *\n User u\n";
        assert_eq!(ways("a", other), ["u@a.org:23", "u@a.org:22"]);
        assert_eq!(ways("a", "Host a\n ProxyJump %h-gate\nHost *\n User u\n"), ["u@a-gate:22", "u@a:22"]);
    }
}
