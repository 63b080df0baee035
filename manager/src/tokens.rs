//! Tokens that need no table: each names what it stands for and proves it by HMAC-SHA256 with the
//! manager's secret. Whoever has a token has the right; so it is never logged and never stored here.
//!
//! A token reads `pf{kind}_{subject}.{mac}`: kind `o` (operator), `u` (user), `j` (a pilot joining
//! for an allocation's tag) or `s` (a pilot's session), subject and mac in base64url.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use nix::unistd::Uid;
use protocol::private;
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};
use scheduler::ids::PilotId;

/// The secret's file in the manager's folder.
pub const SECRET_FILE: &str = "secret";
/// The secret's length in bytes: that of the hash.
const SECRET_BYTES: usize = 32;
/// No token is longer: a subject of 1 KiB with its mac.
const TOKEN_BYTES_MAX: usize = 2048;
/// Part of what is hashed, so that the secret's macs mean nothing anywhere else.
const DOMAIN: &[u8] = b"pilotfish token 1\0";

/// Why the secret cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The system draws no random numbers.
    #[error("failed to draw a secret: the system gives no random numbers")]
    Random,
    /// The file cannot be read or written.
    #[error("failed to read or write {}: {source}", .path.display())]
    File {
        /// The secret's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file holds something else.
    #[error("found {found} bytes in {}, a secret has {SECRET_BYTES}; remove the file to draw a new one (all tokens change)", .path.display())]
    Length {
        /// The secret's file.
        path: PathBuf,
        /// How many bytes there are.
        found: usize,
    },
}

/// Whom a token stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bearer {
    /// A user.
    User {
        /// The user's name.
        name: String,
        /// Whether the user may act on everybody's jobs and end the manager.
        is_operator: bool,
    },
    /// A pilot that comes for the allocation with this tag.
    Join {
        /// The tag.
        tag: String,
    },
    /// A pilot that is registered.
    Session {
        /// Its number.
        pilot: PilotId,
        /// That of its registration.
        nonce: u64,
    },
}

/// Makes and checks tokens. Cheap to clone; `Debug` shows no secret.
#[derive(Clone)]
pub struct Tokens {
    key: hmac::Key,
}

impl Tokens {
    /// Tokens by the secret in `folder`, which is drawn and kept (mode 0600) when there is none.
    ///
    /// # Errors
    /// No random numbers, a file that cannot be read or written, or that holds no secret.
    pub fn open(folder: &Path) -> Result<Tokens, TokensError> {
        let path = folder.join(SECRET_FILE);
        let checked = || private::check_file(&path, Uid::effective().as_raw());
        match fs::read(&path).and_then(|secret| checked().map(|()| secret)) {
            Ok(secret) if secret.len() == SECRET_BYTES => Ok(Tokens::new(&secret)),
            Ok(secret) => Err(TokensError::Length { path, found: secret.len() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let secret = draw_secret()?;
                write_private(&path, &secret).map_err(|source| TokensError::File { path, source })?;
                Ok(Tokens::new(&secret))
            }
            Err(source) => Err(TokensError::File { path, source }),
        }
    }

    /// Tokens by a secret that is kept nowhere.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn draw() -> Result<Tokens, TokensError> {
        Ok(Tokens::new(&draw_secret()?))
    }

    /// Tokens by this secret.
    pub fn new(secret: &[u8]) -> Tokens {
        Tokens { key: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    /// The token of a pilot that is to come for the allocation with this tag.
    pub fn join(&self, tag: &str) -> String {
        self.make('j', tag)
    }

    /// The token of a registered pilot.
    pub fn session(&self, pilot: PilotId, nonce: u64) -> String {
        self.make('s', &format!("{}-{nonce}", pilot.0))
    }

    /// The token of a user.
    pub fn user(&self, name: &str, is_operator: bool) -> String {
        self.make(if is_operator { 'o' } else { 'u' }, name)
    }

    /// Whom the token stands for; `None` when it was not made with this secret. The mac is compared
    /// in constant time.
    pub fn verify(&self, token: &str) -> Option<Bearer> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (kind, rest) = token.strip_prefix("pf")?.split_once('_')?;
        let (subject, mac) = rest.split_once('.')?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        let subject = String::from_utf8(URL_SAFE_NO_PAD.decode(subject).ok()?).ok()?;
        hmac::verify(&self.key, &message(kind, &subject), &mac).ok()?;
        match kind {
            "o" => Some(Bearer::User { name: subject, is_operator: true }),
            "u" => Some(Bearer::User { name: subject, is_operator: false }),
            "j" => Some(Bearer::Join { tag: subject }),
            "s" => {
                let (pilot, nonce) = subject.split_once('-')?;
                Some(Bearer::Session { pilot: PilotId(pilot.parse().ok()?), nonce: nonce.parse().ok()? })
            }
            _ => None,
        }
    }

    fn make(&self, kind: char, subject: &str) -> String {
        let mac = hmac::sign(&self.key, &message(kind.encode_utf8(&mut [0; 4]), subject));
        format!("pf{kind}_{}.{}", URL_SAFE_NO_PAD.encode(subject), URL_SAFE_NO_PAD.encode(mac))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(secret)")
    }
}

fn message(kind: &str, subject: &str) -> Vec<u8> {
    [DOMAIN, kind.as_bytes(), b"\0", subject.as_bytes()].concat()
}

/// Writes a file that only its owner may read, at once or not at all, and so that it is still there when
/// the power fails.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let draft = PathBuf::from(name);
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
    };
    write().inspect_err(|_| {
        // The first error is the one to tell; a draft left behind is overwritten next time.
        let _ = fs::remove_file(&draft);
    })
}

fn draw_secret() -> Result<[u8; SECRET_BYTES], TokensError> {
    let mut secret = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut secret).map_err(|_| TokensError::Random)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use scheduler::ids::PilotId;

    use super::{Bearer, Tokens, TokensError, write_private};

    fn tokens() -> Tokens {
        Tokens::new(&[7; 32])
    }

    #[test]
    fn a_token_says_whom_it_stands_for() {
        let tokens = tokens();
        for name in ["ann", "Łukasz O'Neil", "", "a.b_c"] {
            for is_operator in [false, true] {
                let bearer = Bearer::User { name: name.to_owned(), is_operator };
                assert_eq!(tokens.verify(&tokens.user(name, is_operator)), Some(bearer));
            }
        }
        let join = Bearer::Join { tag: "pf-1-7".to_owned() };
        assert_eq!(tokens.verify(&tokens.join("pf-1-7")), Some(join));
        let session = Bearer::Session { pilot: PilotId(u64::MAX), nonce: 7 };
        assert_eq!(tokens.verify(&tokens.session(PilotId(u64::MAX), 7)), Some(session));
    }

    #[test]
    fn no_changed_token_is_taken() {
        let tokens = tokens();
        let token = tokens.user("ann", false);
        assert!(tokens.verify(&token).is_some());
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(tokens.verify(&changed), None, "{changed}");
        }
        for cut in 0..token.len() {
            assert_eq!(tokens.verify(&token[..cut]), None);
        }
        assert_eq!(tokens.verify(&token.replace("pfu_", "pfo_")), None, "nobody makes himself operator");
        assert_eq!(tokens.verify(&format!("{token}{}", "A".repeat(5000))), None);
        assert_eq!(Tokens::new(&[8; 32]).verify(&token), None, "another manager's token");
    }

    #[test]
    fn the_secret_is_drawn_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let token = Tokens::open(folder.path()).unwrap().join("x");
        assert!(Tokens::open(folder.path()).unwrap().verify(&token).is_some());
        let mode = std::fs::metadata(folder.path().join("secret")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(Tokens::open(elsewhere.path()).unwrap().verify(&token), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_damaged_secret_is_refused_with_its_length() {
        let folder = tempfile::tempdir().unwrap();
        write_private(&folder.path().join("secret"), b"short").unwrap();
        let error = Tokens::open(folder.path()).unwrap_err();
        assert!(matches!(error, TokensError::Length { found: 5, .. }), "{error}");
        assert!(matches!(Tokens::open(&folder.path().join("absent")).unwrap_err(), TokensError::File { .. }));
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        Tokens::open(folder.path()).unwrap();
        let path = folder.path().join("secret");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Tokens::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("mode 0640"), "{error}");
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", tokens()), "Tokens(secret)");
    }
}
