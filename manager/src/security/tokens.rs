//! All tokens. Those of pilots need no table: each names what it stands for and proves it by HMAC-SHA256 with the
//! manager's secret. Those of users are in the table of `users`. Whoever has a token has the right; so it is never
//! logged and never stored here.
//!
//! A pilot's token reads `pf{kind}_{subject}.{mac}`: kind `j` (a pilot joining for an allocation's tag) or `s` (a
//! pilot's session), subject and mac in base64url. Users' tokens of former versions read so, too, with the kinds `o`
//! (operator) and `u`; they are void.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use nix::unistd::Uid;
use protocol::files::private;
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};
use scheduler::{
    engine::{interface::users::TokenId, record::Record},
    ids::PilotId,
    time::Time,
};

use crate::security::{
    private_file::write_private,
    users::{self, Drawn, Holder, Users, Void, Wanted},
};

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
    User(Holder),
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

/// Why a token is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It is no token of this manager.
    #[error("found a token that this manager has not made")]
    Unknown,
    /// It was made for this user by a former version, whose tokens could not be revoked.
    #[error(
        "found a token of {user} that an earlier version of Pilotfish made, which is void; an operator can give {user} \
         a new one (pilotfish user add {user})"
    )]
    Old {
        /// The user's name.
        user: String,
    },
    /// It was taken once, and is void.
    #[error(transparent)]
    Void(#[from] Void),
}

/// Makes and checks tokens. Cheap to clone; `Debug` shows no secret.
#[derive(Clone)]
pub struct Tokens {
    key: hmac::Key,
    users: Arc<Users>,
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
        Ok(Tokens { users: Arc::new(Users::new(None)), ..Tokens::new(&draw_secret()?) })
    }

    /// Tokens by this secret.
    pub fn new(secret: &[u8]) -> Tokens {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        // Says which secret it is, and nothing of what it is.
        let mark = hmac::sign(&key, &message("era", ""));
        let era = mark.as_ref().iter().take(4).fold(0, |era, byte| (era << 8) | u32::from(*byte));
        Tokens { key, users: Arc::new(Users::new(Some(era))) }
    }

    /// The token of a pilot that is to come for the allocation with this tag.
    pub fn join(&self, tag: &str) -> String {
        self.make('j', tag)
    }

    /// The token of a registered pilot.
    pub fn session(&self, pilot: PilotId, nonce: u64) -> String {
        self.make('s', &format!("{}-{nonce}", pilot.0))
    }

    /// The table of users' tokens.
    pub fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// A token of a user that is kept nowhere: it goes with this process, as do managers that only read a store.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn lend(&self, name: &str, is_operator: bool) -> Result<String, TokensError> {
        let wanted = Wanted { user: name.to_owned(), is_operator, by: name.to_owned(), expires_at: None };
        let drawn = self.users.draw(wanted).map_err(|_| TokensError::Random)?;
        self.users.lend(drawn.token);
        Ok(drawn.text)
    }

    /// The first token of the owner that was not revoked.
    pub(crate) fn next_own(&self, owner: &str) -> Drawn {
        users::next_own(&self.users, owner, |n| self.derive(owner, n))
    }

    /// The records that must be kept before the manager of this folder and owner starts, and the owner's token.
    /// `records`: those of the store.
    ///
    /// # Errors
    /// The file of revoked tokens cannot be read or written.
    pub(crate) fn prepare(
        &self,
        folder: &Path,
        owner: &str,
        records: &[Record],
        at: Time,
    ) -> io::Result<(Vec<Record>, String)> {
        users::prepare(&self.users, (folder, owner), records, at, |n| self.derive(owner, n))
    }

    /// Id and secret part of the owner's token number `n`.
    fn derive(&self, owner: &str, n: u64) -> (TokenId, String) {
        let subject = format!("{n} {owner}");
        let id = hmac::sign(&self.key, &message("own id", &subject));
        let mut bits = [0; 6];
        bits.iter_mut().zip(id.as_ref()).for_each(|(bit, of)| *bit = *of);
        let secret = hmac::sign(&self.key, &message("own secret", &subject));
        (TokenId::new(bits), URL_SAFE_NO_PAD.encode(secret))
    }

    /// Whom the token stands for. What proves it is compared in constant time.
    ///
    /// # Errors
    /// It was not made by this manager, or it is void.
    pub fn verify(&self, token: &str) -> Result<Bearer, NotTaken> {
        if let Some(found) = self.users.verify(token) {
            return Ok(Bearer::User(found?));
        }
        match self.verify_signed(token).ok_or(NotTaken::Unknown)? {
            Signed::Pilot(bearer) => Ok(bearer),
            Signed::OldUser(user) => Err(NotTaken::Old { user }),
        }
    }

    /// What a signed token stands for; `None` when it was not made with this secret.
    fn verify_signed(&self, token: &str) -> Option<Signed> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (kind, rest) = token.strip_prefix("pf")?.split_once('_')?;
        let (subject, mac) = rest.split_once('.')?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        let subject = String::from_utf8(URL_SAFE_NO_PAD.decode(subject).ok()?).ok()?;
        hmac::verify(&self.key, &message(kind, &subject), &mac).ok()?;
        match kind {
            "o" | "u" => Some(Signed::OldUser(subject)),
            "j" => Some(Signed::Pilot(Bearer::Join { tag: subject })),
            "s" => {
                let (pilot, nonce) = subject.split_once('-')?;
                let (pilot, nonce) = (PilotId(pilot.parse().ok()?), nonce.parse().ok()?);
                Some(Signed::Pilot(Bearer::Session { pilot, nonce }))
            }
            _ => None,
        }
    }

    fn make(&self, kind: char, subject: &str) -> String {
        let mac = hmac::sign(&self.key, &message(kind.encode_utf8(&mut [0; 4]), subject));
        format!("pf{kind}_{}.{}", URL_SAFE_NO_PAD.encode(subject), URL_SAFE_NO_PAD.encode(mac))
    }
}

/// What a signed token stands for.
enum Signed {
    Pilot(Bearer),
    /// A user, by a former version.
    OldUser(String),
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(secret)")
    }
}

fn message(kind: &str, subject: &str) -> Vec<u8> {
    [DOMAIN, kind.as_bytes(), b"\0", subject.as_bytes()].concat()
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

    use super::{Bearer, NotTaken, Tokens, TokensError};
    use crate::security::private_file::write_private;

    fn tokens() -> Tokens {
        Tokens::new(&[7; 32])
    }

    #[test]
    fn a_token_says_whom_it_stands_for() {
        let tokens = tokens();
        for name in ["ann", "Łukasz O'Neil", "", "a.b_c"] {
            for is_operator in [false, true] {
                let Ok(Bearer::User(holder)) = tokens.verify(&tokens.lend(name, is_operator).unwrap()) else {
                    panic!("{name}");
                };
                assert_eq!((holder.name.as_str(), holder.is_operator), (name, is_operator));
            }
        }
        let join = Bearer::Join { tag: "pf-1-7".to_owned() };
        assert_eq!(tokens.verify(&tokens.join("pf-1-7")), Ok(join));
        let session = Bearer::Session { pilot: PilotId(u64::MAX), nonce: 7 };
        assert_eq!(tokens.verify(&tokens.session(PilotId(u64::MAX), 7)), Ok(session));
    }

    #[test]
    fn no_changed_token_is_taken() {
        let tokens = tokens();
        let unknown = Err(NotTaken::Unknown);
        for token in
            [tokens.lend("ann", false).unwrap(), tokens.join("pf-1-7"), tokens.session(PilotId(3), 9)]
        {
            assert!(tokens.verify(&token).is_ok());
            for at in 0..token.len() {
                let mut bytes = token.clone().into_bytes();
                bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(bytes).unwrap();
                assert_eq!(tokens.verify(&changed), unknown, "{changed}");
            }
            for cut in 0..token.len() {
                assert_eq!(tokens.verify(&token[..cut]), unknown);
            }
            assert_eq!(tokens.verify(&format!("{token}{}", "A".repeat(5000))), unknown);
            assert_eq!(Tokens::new(&[8; 32]).verify(&token), unknown, "another manager's token");
        }
    }

    #[test]
    fn a_users_token_of_a_former_version_is_void_and_named_so() {
        let tokens = tokens();
        // As the last version without a table made it, with this secret.
        let old = tokens.make('o', "ann");
        assert_eq!(tokens.verify(&old), Err(NotTaken::Old { user: "ann".to_owned() }));
        assert_eq!(
            Tokens::new(&[8; 32]).verify(&old),
            Err(NotTaken::Unknown),
            "one that is none is not told so"
        );
    }

    #[test]
    fn the_secret_is_drawn_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let token = Tokens::open(folder.path()).unwrap().join("x");
        assert!(Tokens::open(folder.path()).unwrap().verify(&token).is_ok());
        let mode = std::fs::metadata(folder.path().join("secret")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(Tokens::open(elsewhere.path()).unwrap().verify(&token), Err(NotTaken::Unknown));
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
