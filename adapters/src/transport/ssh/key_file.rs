//! What files of keys hold: whether they are locked, and which public key is theirs.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::STANDARD};

use super::known_hosts::kind_of;

/// OpenSSH's own form of private keys begins with this.
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// What a list of revoked keys begins with that is not of text.
const KRL_MAGIC: &[u8] = b"SSHKRL\n\0";

/// What a file of a key holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum KeyFile {
    /// It is not there.
    None,
    /// It cannot be read: why.
    Unreadable(String),
    /// A public key; who has the private one is the agent's affair.
    Public(Vec<u8>),
    /// A private key.
    Private {
        /// Whether it wants a passphrase.
        is_locked: bool,
        /// Its public key, where its form or the file beside it tells.
        public: Option<Vec<u8>>,
        /// Its kind, as far as that is known.
        kind: Option<String>,
    },
}

impl KeyFile {
    /// Its public key.
    pub(super) fn public(&self) -> Option<&[u8]> {
        match self {
            KeyFile::Public(public) => Some(public),
            KeyFile::Private { public, .. } => public.as_deref(),
            KeyFile::None | KeyFile::Unreadable(_) => None,
        }
    }
}

/// Looks into a file.
pub(super) fn look(path: &Path) -> KeyFile {
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // The private key may be in the agent alone.
            return public_beside(path).map_or(KeyFile::None, KeyFile::Public);
        }
        Err(error) => return KeyFile::Unreadable(error.to_string()),
    };
    if let Some(public) = public_of(&text) {
        return KeyFile::Public(public);
    }
    let body: String = text.lines().map(str::trim).filter(|line| !line.starts_with('-')).collect();
    let own = STANDARD.decode(body).ok().and_then(|bytes| own_form(&bytes));
    let (is_locked, public) =
        own.map_or((text.contains("ENCRYPTED"), None), |(locked, public)| (locked, Some(public)));
    let public = public.or_else(|| public_beside(path));
    let kind = public.as_deref().and_then(kind_of);
    KeyFile::Private { is_locked, public, kind }
}

/// The next field, which begins with how long it is.
fn next<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (field, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    *bytes = rest;
    Some(field)
}

fn next_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*number))
}

/// Whether OpenSSH's own form is locked, and its public key.
fn own_form(bytes: &[u8]) -> Option<(bool, Vec<u8>)> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let cipher = next(&mut rest)?;
    // The key derivation and its options, then how many keys there are.
    next(&mut rest)?;
    next(&mut rest)?;
    rest = rest.get(4..)?;
    Some((cipher != b"none", next(&mut rest)?.to_vec()))
}

fn public_beside(path: &Path) -> Option<Vec<u8>> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".pub");
    public_of(&std::fs::read_to_string(beside).ok()?)
}

/// The key of a line `KIND BASE64 COMMENT`.
fn public_of(text: &str) -> Option<Vec<u8>> {
    let mut words = text.split_whitespace();
    let (kind, key) = (words.next()?, STANDARD.decode(words.next()?).ok()?);
    (kind_of(&key)? == kind).then_some(key)
}

/// The public key that a certificate's file is of. A certificate has, after its kind and a random number, the fields
/// of the key.
pub(super) fn certified(path: &Path) -> Option<Vec<u8>> {
    let certificate = public_of(&std::fs::read_to_string(path).ok()?)?;
    let kind = kind_of(&certificate)?;
    let plain = kind.strip_suffix("-cert-v01@openssh.com")?;
    let mut fields = Vec::new();
    let mut rest = certificate.as_slice();
    while let Some((length, after)) = rest.split_first_chunk::<4>()
        && let Some((field, after)) = after.split_at_checked(u32::from_be_bytes(*length) as usize)
        && fields.len() < 4
    {
        fields.push(field);
        rest = after;
    }
    let n_of_key = if plain == "ssh-ed25519" { 1 } else { 2 };
    let of_key = fields.get(2..2 + n_of_key)?;
    let mut public = Vec::new();
    for field in [plain.as_bytes()].into_iter().chain(of_key.iter().copied()) {
        public.extend(u32::try_from(field.len()).ok()?.to_be_bytes());
        public.extend(field);
    }
    Some(public)
}

/// What a certificate says of who may use it, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Certificate {
    /// For whom it is (principals).
    names: Vec<String>,
    /// In seconds since 1970.
    valid_after: u64,
    valid_before: u64,
    /// From where it may be used, if not from everywhere.
    sources: Option<String>,
}

impl Certificate {
    /// The one in a file.
    pub(super) fn of(path: &Path) -> Option<Certificate> {
        let bytes = public_of(&std::fs::read_to_string(path).ok()?)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut rest = bytes.as_slice();
        let kind = text(next(&mut rest)?);
        // After its kind and a random number come the fields of the key.
        let n_of_key = match kind.strip_suffix("-cert-v01@openssh.com")? {
            "ssh-ed25519" => 1,
            "sk-ecdsa-sha2-nistp256" => 3,
            "ssh-dss" => 4,
            _ => 2,
        };
        for _ in 0..=n_of_key {
            next(&mut rest)?;
        }
        let _serial = next_u64(&mut rest)?;
        let (_kind, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        let _id = next(&mut rest)?;
        let (mut list, mut names) = (next(&mut rest)?, Vec::new());
        while let Some(name) = next(&mut list) {
            names.push(text(name));
        }
        let (valid_after, valid_before) = (next_u64(&mut rest)?, next_u64(&mut rest)?);
        let (mut options, mut sources) = (next(&mut rest)?, None);
        while let (Some(name), Some(mut value)) = (next(&mut options), next(&mut options)) {
            if name == b"source-address" {
                sources = next(&mut value).map(text);
            }
        }
        Some(Certificate { names, valid_after, valid_before, sources })
    }

    /// Why a host may not take it from this user, in words.
    pub(super) fn why_refused(&self, user: &str, now: SystemTime) -> String {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if self.valid_before <= now {
            return format!("it expired on {}; get a new one", time_of(self.valid_before));
        }
        if now < self.valid_after {
            return format!("it is not valid before {}", time_of(self.valid_after));
        }
        let mut why = Vec::new();
        if self.names.is_empty() {
            why.push("it names no user".to_owned());
        } else if !self.names.iter().any(|name| name == user) {
            why.push(format!("it is for {} and not for {user}", self.names.join(", ")));
        }
        if let Some(sources) = &self.sources {
            why.push(format!("it may be used from {sources} only"));
        }
        if why.is_empty() {
            why.push("the host does not take it".to_owned());
        }
        why.join(", ")
    }
}

fn time_of(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "a day far away".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// The keys of a file of revoked ones. Errors: why it cannot be told which they are.
pub(super) fn revoked(path: &Path) -> Result<Vec<Vec<u8>>, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    if bytes.starts_with(KRL_MAGIC) {
        return Err("a KRL, which the transport libssh2 cannot read; write `transport: openssh`".to_owned());
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| public_of(line).ok_or_else(|| format!("found no key in the line `{line}`"))).collect()
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::*;

    #[test]
    fn a_certificate_says_for_whom_and_until_when_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let keygen = |words: &[&str]| {
            let status = Command::new("ssh-keygen").arg("-q").args(words).current_dir(folder.path()).status();
            assert!(status.expect("ssh-keygen runs").success(), "{words:?}");
        };
        keygen(&["-t", "ed25519", "-N", "", "-f", "ca"]);
        let now = SystemTime::now();
        for kind in ["ed25519", "ecdsa", "rsa"] {
            keygen(&["-t", kind, "-N", "", "-f", kind]);
            let said = |words: &[&str]| {
                let public = format!("{kind}.pub");
                keygen(&[&["-s", "ca", "-I", "me"], words, &[public.as_str()]].concat());
                let file = folder.path().join(format!("{kind}-cert.pub"));
                let certificate = Certificate::of(&file).expect("a certificate");
                certificate.why_refused("ada", now)
            };
            let day = ["-V", "20200101000000Z:20200102030400Z"];
            assert_eq!(
                said(&["-n", "ada", day[0], day[1]]),
                "it expired on 2020-01-02 03:04 UTC; get a new one"
            );
            assert_eq!(said(&["-n", "ada"]), "the host does not take it", "it lasts for ever");
            assert_eq!(said(&["-n", "bob,eve"]), "it is for bob, eve and not for ada");
            let sources = ["-O", "source-address=192.0.2.0/24", "-O", "force-command=true"];
            let only = [&["-n", "ada"], &sources[..]].concat();
            assert_eq!(said(&only), "it may be used from 192.0.2.0/24 only");
            assert_eq!(said(&[]), "it names no user");
        }
        let certificate =
            Certificate { names: Vec::new(), valid_after: u64::MAX, valid_before: u64::MAX, sources: None };
        let now = UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(certificate.why_refused("ada", now), "it is not valid before a day far away");
        assert_eq!(Certificate::of(&folder.path().join("ca.pub")), None);
    }
}
