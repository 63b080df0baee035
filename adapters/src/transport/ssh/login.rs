//! Logging in: whose host it is, and who we are.

use std::{
    cell::Cell,
    net::{IpAddr, TcpStream},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use ssh2::{ErrorCode, HashType, KeyboardInteractivePrompt, MethodType, Session};

use super::{
    SshError,
    asker::{Asker, Prompt},
    key_file::{self, KeyFile},
    known_hosts::{self, Known, Names, kind_of},
    route::Hop,
    wire::{CALL_LIMIT_MS, Wire},
};

/// So often somebody may mistype.
const TRIES: usize = 3;

/// Kinds of host keys, the best first.
const KEY_TYPES: [&str; 7] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
    "ssh-rsa",
];

/// Logs in to a host over this socket.
pub(super) fn log_in(socket: std::os::fd::OwnedFd, hop: &Hop, asker: &dyn Asker) -> Result<Wire, SshError> {
    let broken = |what: String| SshError::Broken { host: hop.host.clone(), what };
    let mut session = Session::new().map_err(|error| broken(error.to_string()))?;
    session.set_timeout(u32::from(CALL_LIMIT_MS));
    let known = known_of(hop, &Names::new(&hop.host, hop.port, hop.alias.as_deref()))?;
    let types = known_types(&known);
    // Of a host with several keys, the one that is known; never a certificate, which nothing here checks.
    let mut wanted = if types.is_empty() { KEY_TYPES.to_vec() } else { types.clone() };
    wanted.retain(|kind| hop.host_key_types.is_empty() || hop.host_key_types.iter().any(|may| may == kind));
    if wanted.is_empty() {
        let kinds = if types.is_empty() { KEY_TYPES.to_vec() } else { types };
        return Err(broken(format!(
            "HostKeyAlgorithms in the ssh configuration allows none of the kinds of keys that can be checked: {}",
            kinds.join(", ")
        )));
    }
    session.method_pref(MethodType::HostKey, &wanted.join(",")).map_err(|error| broken(error.to_string()))?;
    // Behind a proxy or another host it is no socket of the network.
    let peer = socket.try_clone().ok().and_then(|socket| TcpStream::from(socket).peer_addr().ok());
    let peer = peer.map(|peer| peer.ip());
    let ours = socket.try_clone().map_err(|error| broken(error.to_string()))?;
    session.set_tcp_stream(ours);
    session.handshake().map_err(|error| match types.is_empty() {
        true => broken(error.message().to_owned()),
        false => broken(format!("{}; of it {} are known", error.message(), wanted.join(", "))),
    })?;
    check_host(&session, &known, hop)?;
    if let Some(address) = address_to_check(hop, peer) {
        let known = known_of(hop, &Names::new(&address.to_string(), hop.port, None))?;
        let key = session.host_key().map(|(key, _)| key).unwrap_or_default();
        check_address(key, &known, hop, address)?;
    }
    authenticate(&session, hop, asker)?;
    Ok(Wire { session, socket })
}

/// Reads what the files say of the host. One that cannot be read may have the line that forbids its key.
fn known_of(hop: &Hop, names: &Names) -> Result<Known, SshError> {
    let failed = |what: String| SshError::Broken { host: hop.host.clone(), what };
    if hop.has_known_hosts_command {
        return Err(failed(
            "KnownHostsCommand in the ssh configuration says which keys it has, or which are revoked, and the \
             transport libssh2 does not run it; write `transport: openssh`"
                .into(),
        ));
    }
    let mut texts = Vec::new();
    for file in hop.known_hosts.iter().filter(|file| file.exists()) {
        let text = std::fs::read(file);
        texts.push(text.map_err(|error| failed(format!("failed to read {}: {error}", file.display())))?);
    }
    let mut known = known_hosts::read(texts.iter().map(Vec::as_slice), names);
    for file in &hop.revoked_keys {
        let revoked = key_file::revoked(file);
        known
            .revoked
            .extend(revoked.map_err(|why| failed(format!("RevokedHostKeys {}: {why}", file.display())))?);
    }
    Ok(known)
}

/// The kinds of keys that are known of the host and not revoked, the best first.
fn known_types(known: &Known) -> Vec<&'static str> {
    let trusted = known.keys.iter().filter(|key| !known.revoked.contains(key));
    let kinds: Vec<String> = trusted.filter_map(|key| kind_of(key)).collect();
    let is_known = |kind: &str| kinds.iter().any(|known| known == kind);
    let is_rsa = |kind: &str| kind.starts_with("rsa-sha2-");
    let all = KEY_TYPES.into_iter();
    all.filter(|kind| is_known(kind) || (is_rsa(kind) && is_known("ssh-rsa"))).collect()
}

/// The address whose key is compared, too, by the rules of `ssh`: not that of this host, nor where a name stands for the
/// host or it was named by its address.
fn address_to_check(hop: &Hop, peer: Option<IpAddr>) -> Option<IpAddr> {
    let is_other = |address: &IpAddr| !address.is_loopback() && hop.host != address.to_string();
    peer.filter(|address| hop.is_checked_by_address && hop.alias.is_none() && is_other(address))
}

/// Whether the files have no other key for the host's address. An address that they do not know is no reason.
fn check_address(key: &[u8], known: &Known, hop: &Hop, address: IpAddr) -> Result<(), SshError> {
    let is_listed = |keys: &[Vec<u8>]| keys.iter().any(|listed| listed == key);
    let is_other = !known.keys.is_empty() && !is_listed(&known.keys);
    match is_other || is_listed(&known.revoked) {
        true => Err(SshError::Broken {
            host: hop.host.clone(),
            what: format!(
                "its key differs from the key that known_hosts has for its address {address} (CheckHostIP in the \
                 ssh configuration): either the name leads to another host now, or the address has become \
                 another host's"
            ),
        }),
        false => Ok(()),
    }
}

fn check_host(session: &Session, known: &Known, hop: &Hop) -> Result<(), SshError> {
    let (key, _) = session
        .host_key()
        .ok_or_else(|| SshError::Broken { host: hop.host.clone(), what: "it showed no key".into() })?;
    let hash = session.host_key_hash(HashType::Sha256).unwrap_or_default();
    let fingerprint = format!("SHA256:{}", STANDARD_NO_PAD.encode(hash));
    let (host, port) = (hop.host.clone(), hop.port);
    let is_listed = |keys: &[Vec<u8>]| keys.iter().any(|listed| listed == key);
    match () {
        () if is_listed(&known.revoked) => Err(SshError::RevokedHostKey { host, port, fingerprint }),
        () if rsa_bits(key).is_some_and(|bits| bits < hop.rsa_bits_min) => Err(SshError::Broken {
            host,
            what: format!(
                "its RSA key has {} bits, and RequiredRSASize in the ssh configuration wants {}",
                rsa_bits(key).unwrap_or(0),
                hop.rsa_bits_min
            ),
        }),
        () if is_listed(&known.keys) => Ok(()),
        () if !known.keys.is_empty() => {
            let (known_as, file) = known_where(hop);
            Err(SshError::WrongHostKey { host, port, fingerprint, known_as, file })
        }
        () if known.has_authority => Err(SshError::Broken {
            host,
            what: "known_hosts vouches for its key by @cert-authority, which the transport libssh2 cannot check; \
                   write `transport: openssh`"
                .into(),
        }),
        () if hop.is_known_by_dns => Err(SshError::Broken {
            host,
            what: format!(
                "no known_hosts file has its key, {fingerprint}, and the transport libssh2 does not ask DNS for it \
                 (VerifyHostKeyDNS); write `transport: openssh`"
            ),
        }),
        () => Err(SshError::UnknownHostKey { host, port, fingerprint, by_hand: hop.by_hand.clone() }),
    }
}

/// The name under which a file has a key of the host, and the first such file.
fn known_where(hop: &Hop) -> (String, Option<PathBuf>) {
    let alone = Names::new(&hop.host, 22, None);
    let names = [Names::new(&hop.host, hop.port, hop.alias.as_deref()), alone];
    let n_tried = if hop.alias.is_some() { 1 } else { 2 };
    let has_key = |file: &Path, names: &Names| {
        // A name alone counts where no line has it with its port.
        std::fs::read(file)
            .is_ok_and(|text| !known_hosts::read([&text[..]], &names.first_only()).keys.is_empty())
    };
    for names in &names[..n_tried] {
        if let Some(file) = hop.known_hosts.iter().find(|file| has_key(file, names)) {
            return (names.shown().to_owned(), Some(file.clone()));
        }
    }
    (names[0].shown().to_owned(), None)
}

/// How many bits the modulus of an RSA key has; `None`: it is no RSA key.
fn rsa_bits(key: &[u8]) -> Option<usize> {
    // The kind, the exponent and the modulus, each after its length.
    let mut fields = Vec::new();
    let mut rest = key;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (field, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        fields.push(field);
        rest = after;
    }
    let [b"ssh-rsa", _, modulus] = fields[..] else { return None };
    let first = modulus.iter().position(|byte| *byte != 0)?;
    Some((modulus.len() - first) * 8 - modulus[first].leading_zeros() as usize)
}

/// Tries what the host takes: keys, then questions (a second factor may follow a key), then a password.
fn authenticate(session: &Session, hop: &Hop, asker: &dyn Asker) -> Result<(), SshError> {
    let mut login = Login { session, hop, asker, tried: Vec::new(), is_unanswered: false };
    for method in ["publickey", "keyboard-interactive", "password"] {
        // What is taken changes with what was given: a key, then a second factor.
        let taken = session.auth_methods(&hop.user).unwrap_or("").to_owned();
        if !session.authenticated() && taken.split(',').any(|taken| taken == method) {
            match method {
                "publickey" => login.by_keys(),
                "password" => login.by_password(),
                _ => login.by_questions(),
            }
        }
        if session.authenticated() {
            return Ok(());
        }
    }
    let taken = session.auth_methods(&hop.user).unwrap_or("").to_owned();
    for (method, what) in [("gssapi", "Kerberos (GSSAPI)"), ("hostbased", "keys of hosts")] {
        if taken.contains(method) {
            login.tried.push(format!("{what}: the transport libssh2 cannot, `transport: openssh` can"));
        }
    }
    let Login { tried, is_unanswered, .. } = login;
    let (host, user, tried) = (hop.host.clone(), hop.user.clone(), tried.join("; "));
    match is_unanswered {
        true => Err(SshError::NeedsPerson { host, user, why: tried }),
        false => Err(SshError::Refused { host, user, tried }),
    }
}

struct Login<'a> {
    session: &'a Session,
    hop: &'a Hop,
    asker: &'a dyn Asker,
    /// What was tried, and why it failed.
    tried: Vec<String>,
    /// Whether a person could have answered, and nobody was there.
    is_unanswered: bool,
}

impl Login<'_> {
    fn by_keys(&mut self) {
        let keys: Vec<(&Path, KeyFile)> =
            self.hop.keys.iter().map(|path| (path.as_path(), key_file::look(path))).collect();
        self.by_agent(&keys);
        for (path, key) in &keys {
            if self.session.authenticated() {
                return;
            }
            self.by_key(path, key);
        }
        if keys.iter().all(|(_, key)| *key == KeyFile::None) {
            self.tried.push("no file of a key is there".into());
        }
    }

    /// Tries the agent's keys: those that files name, and the others unless IdentitiesOnly is set.
    fn by_agent(&mut self, keys: &[(&Path, KeyFile)]) {
        let Some(socket) = &self.hop.agent else { return };
        let named: Vec<&[u8]> = keys.iter().filter_map(|(_, key)| key.public()).collect();
        let failed = |error: ssh2::Error| format!("the agent's keys: {}", error.message());
        let listed = self.session.agent().and_then(|mut agent| {
            agent.set_identity_path(socket)?;
            agent.connect()?;
            agent.list_identities()?;
            Ok((agent.identities()?, agent))
        });
        let (mut identities, agent) = match listed {
            Ok(listed) => listed,
            Err(error) => return self.tried.push(failed(error)),
        };
        let is_named = |identity: &ssh2::PublicKey| named.contains(&identity.blob());
        identities.retain(|identity| is_named(identity) || !self.hop.is_files_only);
        identities.sort_by_key(|identity| !is_named(identity));
        for identity in &identities {
            if let Err(error) = agent.userauth(&self.hop.user, identity) {
                self.tried.push(failed(error));
            }
            if self.session.authenticated() {
                return;
            }
        }
    }

    fn by_key(&mut self, path: &Path, key: &KeyFile) {
        let shown = path.display();
        let KeyFile::Private { is_locked, kind, .. } = key else {
            match key {
                KeyFile::Public(_) => {
                    self.tried.push(format!("{shown}: a public key, and the agent has none that fits"))
                }
                KeyFile::Unreadable(why) => self.tried.push(format!("{shown}: {why}")),
                KeyFile::None | KeyFile::Private { .. } => {}
            }
            return;
        };
        if kind.as_ref().is_some_and(|kind| kind.starts_with("sk-")) {
            let why = "a security key (FIDO): the transport libssh2 cannot, `transport: openssh` can";
            return self.tried.push(format!("{shown}: {why}"));
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push("-cert.pub");
        let beside = std::path::PathBuf::from(beside);
        let public = key.public();
        let is_of_key =
            |path: &&std::path::PathBuf| key_file::certified(path).as_deref() == public && public.is_some();
        let certificates: Vec<_> = self.hop.certificates.iter().chain([&beside]).filter(is_of_key).collect();
        for _ in 0..if *is_locked { TRIES } else { 1 } {
            let phrase = match is_locked {
                true => self.ask("", &format!("Passphrase of {shown}: ")),
                false => Some(String::new()),
            };
            let Some(phrase) = phrase else {
                self.is_unanswered = true;
                return self
                    .tried
                    .push(format!("{shown}: it has a passphrase, and nobody is there to type it"));
            };
            let phrase = (!phrase.is_empty()).then_some(phrase.as_str());
            let mut is_wrong_phrase = false;
            for certificate in certificates.iter().map(|path| Some(path.as_path())).chain([None]) {
                match self.session.userauth_pubkey_file(&self.hop.user, certificate, path, phrase) {
                    Ok(()) => return,
                    // `LIBSSH2_ERROR_FILE`: it was not unlocked. The host has seen nothing of it.
                    Err(error) if *is_locked && error.code() == ErrorCode::Session(-16) => {
                        is_wrong_phrase = true
                    }
                    Err(error) => {
                        let with =
                            certificate.map(|path| format!(" with {}", path.display())).unwrap_or_default();
                        self.tried.push(format!("{shown}{with}: {}", error.message()));
                    }
                }
                if self.session.authenticated() {
                    return;
                }
            }
            if !is_wrong_phrase {
                return;
            }
            self.tried.push(format!("{shown}: the passphrase is wrong"));
        }
    }

    fn by_questions(&mut self) {
        let host = format!("{}@{}", self.hop.user, self.hop.host);
        for _ in 0..TRIES {
            let mut questions = Questions { asker: self.asker, host: &host, is_answered: Cell::new(true) };
            let result = self.session.userauth_keyboard_interactive(&self.hop.user, &mut questions);
            if result.is_ok() {
                return;
            }
            if !questions.is_answered.get() {
                self.is_unanswered = true;
                self.tried.push("the host asks questions, and nobody is there to answer".into());
                return;
            }
        }
        self.tried.push("the answers to the host's questions: refused".into());
    }

    fn by_password(&mut self) {
        for _ in 0..TRIES {
            let Some(password) = self.ask("", "Password: ") else {
                self.is_unanswered = true;
                self.tried.push("a password, and nobody is there to type it".into());
                return;
            };
            if self.session.userauth_password(&self.hop.user, &password).is_ok() {
                return;
            }
        }
        self.tried.push("the password: refused".into());
    }

    fn ask(&self, text: &str, prompt: &str) -> Option<String> {
        let host = format!("{}@{}", self.hop.user, self.hop.host);
        let prompt = Prompt { text: prompt.to_owned(), is_secret: true };
        self.asker.ask(&host, text, &[prompt])?.pop()
    }
}

/// Hands the host's questions on.
struct Questions<'a> {
    asker: &'a dyn Asker,
    host: &'a str,
    is_answered: Cell<bool>,
}

impl KeyboardInteractivePrompt for Questions<'_> {
    fn prompt<'p>(&mut self, _: &str, text: &str, prompts: &[ssh2::Prompt<'p>]) -> Vec<String> {
        // Some hosts end with a page of text and no question.
        if prompts.is_empty() {
            return Vec::new();
        }
        let prompts: Vec<Prompt> = prompts
            .iter()
            .map(|prompt| Prompt { text: prompt.text.to_string(), is_secret: !prompt.echo })
            .collect();
        let answers = self.asker.ask(self.host, text, &prompts);
        self.is_answered.set(answers.is_some());
        answers.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_an_address_is_compared_where_the_configuration_says_so() {
        let checked = Hop { host: "login.centre.org".into(), is_checked_by_address: true, ..Hop::default() };
        let peer: IpAddr = [192, 0, 2, 7].into();
        assert_eq!(address_to_check(&checked, Some(peer)), Some(peer));
        let is_left_out = |hop: Hop, peer: Option<IpAddr>| address_to_check(&hop, peer).is_none();
        assert!(is_left_out(Hop { is_checked_by_address: false, ..checked.clone() }, Some(peer)));
        assert!(is_left_out(Hop { alias: Some("farm".into()), ..checked.clone() }, Some(peer)));
        assert!(is_left_out(Hop { host: "192.0.2.7".into(), ..checked.clone() }, Some(peer)));
        assert!(is_left_out(checked.clone(), Some([127, 0, 0, 1].into())), "this host");
        assert!(is_left_out(checked.clone(), None), "behind a proxy");

        let known = |keys: &[&[u8]], revoked: &[&[u8]]| Known {
            keys: keys.iter().map(|key| key.to_vec()).collect(),
            revoked: revoked.iter().map(|key| key.to_vec()).collect(),
            ..Known::default()
        };
        let check = |known: Known| check_address(b"key", &known, &checked, peer);
        assert!(check(known(&[], &[])).is_ok(), "nothing is known of the address");
        assert!(check(known(&[b"other", b"key"], &[])).is_ok());
        assert!(check(known(&[b"key"], &[b"key"])).is_err(), "it is revoked");
        let error = check(known(&[b"other"], &[])).expect_err("another key");
        assert!(error.to_string().contains("CheckHostIP") && error.to_string().contains("192.0.2.7"));
    }
}
