//! What files of keys hold: whether they are locked, and which public key is theirs.

use std::path::Path;

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

/// Whether OpenSSH's own form is locked, and its public key.
fn own_form(bytes: &[u8]) -> Option<(bool, Vec<u8>)> {
    fn next<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (field, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        *bytes = rest;
        Some(field)
    }
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
