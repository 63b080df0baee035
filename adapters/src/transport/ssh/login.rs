//! Logging in: whose host it is, and who we are.

use std::{cell::Cell, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::STANDARD_NO_PAD};
use ssh2::{
    CheckResult, HashType, KeyboardInteractivePrompt, KnownHostFileKind, KnownHosts, MethodType, Session,
};

use super::{
    SshError,
    asker::{Asker, Prompt},
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
    let known = known_hosts(&session, hop)?;
    let types = known_types(&known, hop);
    if !types.is_empty() {
        // Of a host with several keys, the one that is known.
        let wanted = types.join(",");
        session.method_pref(MethodType::HostKey, &wanted).map_err(|error| broken(error.to_string()))?;
    }
    let ours = socket.try_clone().map_err(|error| broken(error.to_string()))?;
    session.set_tcp_stream(ours);
    session.handshake().map_err(|error| match types.is_empty() {
        true => broken(error.message().to_owned()),
        false => broken(format!("{}; of it {} are known", error.message(), types.join(", "))),
    })?;
    check_host(&session, &known, hop)?;
    authenticate(&session, hop, asker)?;
    Ok(Wire { session, socket })
}

fn known_hosts(session: &Session, hop: &Hop) -> Result<KnownHosts, SshError> {
    let failed = |what: String| SshError::Broken { host: hop.host.clone(), what };
    let mut known = session.known_hosts().map_err(|error| failed(error.to_string()))?;
    for file in hop.known_hosts.iter().filter(|file| file.exists()) {
        known
            .read_file(file, KnownHostFileKind::OpenSSH)
            .map_err(|error| failed(format!("failed to read {}: {}", file.display(), error.message())))?;
    }
    Ok(known)
}

/// The kinds of keys that are known of the host: each entry is asked whether it is of it, as its name may be
/// a hash.
fn known_types(known: &KnownHosts, hop: &Hop) -> Vec<&'static str> {
    let keys = known.hosts().unwrap_or_default();
    let keys = keys.iter().filter_map(|entry| STANDARD.decode(entry.key()).ok());
    let of_host = keys.filter(|key| matches!(known.check_port(&hop.host, hop.port, key), CheckResult::Match));
    let kinds: Vec<String> = of_host.filter_map(|key| kind_of(&key)).collect();
    let is_known = |kind: &str| kinds.iter().any(|known| known == kind);
    let is_rsa = |kind: &str| kind.starts_with("rsa-sha2-");
    let all = KEY_TYPES.into_iter();
    all.filter(|kind| is_known(kind) || (is_rsa(kind) && is_known("ssh-rsa"))).collect()
}

/// A key begins with its kind and that word's length.
fn kind_of(key: &[u8]) -> Option<String> {
    let (length, rest) = key.split_first_chunk::<4>()?;
    let kind = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    String::from_utf8(kind.to_vec()).ok()
}

fn check_host(session: &Session, known: &KnownHosts, hop: &Hop) -> Result<(), SshError> {
    let (key, _) = session
        .host_key()
        .ok_or_else(|| SshError::Broken { host: hop.host.clone(), what: "it showed no key".into() })?;
    let hash = session.host_key_hash(HashType::Sha256).unwrap_or_default();
    let fingerprint = format!("SHA256:{}", STANDARD_NO_PAD.encode(hash));
    let (host, port) = (hop.host.clone(), hop.port);
    match known.check_port(&hop.host, hop.port, key) {
        CheckResult::Match => Ok(()),
        CheckResult::Mismatch => Err(SshError::WrongHostKey { host, port, fingerprint }),
        CheckResult::NotFound | CheckResult::Failure => {
            Err(SshError::UnknownHostKey { host, port, fingerprint })
        }
    }
}

/// Tries what the host takes: keys, then questions (a second factor may follow a key), then a password.
fn authenticate(session: &Session, hop: &Hop, asker: &dyn Asker) -> Result<(), SshError> {
    let mut login = Login { session, hop, asker, tried: Vec::new() };
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
    Err(SshError::Refused { host: hop.host.clone(), user: hop.user.clone(), tried: login.tried.join("; ") })
}

struct Login<'a> {
    session: &'a Session,
    hop: &'a Hop,
    asker: &'a dyn Asker,
    /// What was tried, and why it failed.
    tried: Vec<String>,
}

impl Login<'_> {
    fn by_keys(&mut self) {
        let user = &self.hop.user;
        if self.hop.asks_agent
            && std::env::var_os("SSH_AUTH_SOCK").is_some()
            && let Err(error) = self.session.userauth_agent(user)
        {
            self.tried.push(format!("the agent's keys: {}", error.message()));
        }
        for key in self.hop.keys.iter().filter(|key| key.exists()) {
            if self.session.authenticated() {
                return;
            }
            let phrase = match is_locked(key) {
                true => self.ask("", &format!("Passphrase of {}: ", key.display())),
                false => Some(String::new()),
            };
            let Some(phrase) = phrase else {
                self.tried
                    .push(format!("{}: it has a passphrase, and nobody is there to type it", key.display()));
                continue;
            };
            let phrase = (!phrase.is_empty()).then_some(phrase.as_str());
            if let Err(error) = self.session.userauth_pubkey_file(user, None, key, phrase) {
                self.tried.push(format!("{}: {}", key.display(), error.message()));
            }
        }
        if !self.hop.keys.iter().any(|key| key.exists()) {
            self.tried.push("no file of a key is there".into());
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
                self.tried.push("the host asks questions, and nobody is there to answer".into());
                return;
            }
        }
        self.tried.push("the answers to the host's questions: refused".into());
    }

    fn by_password(&mut self) {
        for _ in 0..TRIES {
            let Some(password) = self.ask("", "Password: ") else {
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

/// Whether a private key's file wants a passphrase, by its form.
fn is_locked(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    if text.contains("ENCRYPTED") {
        return true;
    }
    let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let Ok(bytes) = STANDARD.decode(body) else { return false };
    // OpenSSH's form: this word, then the name of the cipher.
    bytes.strip_prefix(b"openssh-key-v1\0").and_then(kind_of).is_some_and(|cipher| cipher != "none")
}
