//! Users' tokens: who has one, whose is void, when each was last used. The table is in memory, made from the store's
//! records. Of a token's secret part only the SHA-256 is kept.
//!
//! A token reads `pfu_{id}_{secret}`: the id of 12 hexadecimal digits may be shown, the secret is 32 drawn bytes in
//! base64url. The role is in the table, not in the token.

mod own;
mod revoked;
mod shared_accounts;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use protocol::users::{TokenState, TokenView};
use ring::{
    digest,
    rand::{SecureRandom, SystemRandom},
};
use scheduler::{
    digest::Digest,
    engine::{
        interface::{
            Event,
            users::{TokenId, UserToken},
        },
        record::Record,
    },
    time::{Span, Time},
};
use tokio::sync::watch;

use crate::engine_loop::handle::Handle;
pub(crate) use crate::security::users::own::{next as next_own, prepare};
pub(crate) use crate::security::users::revoked::FILE as REVOKED_FILE;
pub(crate) use crate::security::users::shared_accounts::{Accounts, Sharing};

/// What each token of a user begins with.
pub(crate) const PREFIX: &str = "pfu_";
/// Bytes of the secret part.
const SECRET_BYTES: usize = 32;
/// When a token was last used is told to the minute, …
const USE_GRAIN: Span = Span::from_secs(60);
/// … and kept to the hour: it must cost no write a request.
const USE_KEPT_GRAIN: Span = Span::from_secs(3600);
/// How often uses are looked at.
const USE_INTERVAL: Duration = Duration::from_secs(600);
/// A wait for a token's expiry looks at the clock so often: a suspended host does not prolong it.
const EXPIRY_LOOK: Duration = Duration::from_secs(30);

/// Why a token that was made here once is void.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Void {
    /// Somebody has revoked it.
    #[error(
        "token {id} of {user} was revoked; an operator can give {user} a new one (pilotfish user add {user})"
    )]
    Revoked {
        /// The token.
        id: TokenId,
        /// Its user.
        user: String,
    },
    /// Its time is over.
    #[error(
        "token {id} of {user} has expired; an operator can give {user} a new one (pilotfish user add {user})"
    )]
    Expired {
        /// The token.
        id: TokenId,
        /// Its user.
        user: String,
    },
    /// The manager's secret is another one now.
    #[error(
        "token {id} of {user} is void, since the manager's file `secret` was removed; an operator can give {user} a \
         new one (pilotfish user add {user})"
    )]
    Era {
        /// The token.
        id: TokenId,
        /// Its user.
        user: String,
    },
}

/// A user's token that is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The token.
    pub token: TokenId,
    /// The user's name.
    pub name: String,
    /// Whether the user may act on everybody's jobs and end the manager.
    pub is_operator: bool,
}

impl Holder {
    /// Whose things alone the holder sees; `None`: everybody's.
    pub fn name_unless_operator(&self) -> Option<&str> {
        (!self.is_operator).then_some(&self.name)
    }
}

/// A token that was just made. It is good when [`Users::note`] has heard that it is kept.
pub(crate) struct Drawn {
    /// The whole token, for its user alone.
    pub(crate) text: String,
    /// What is kept of it.
    pub(crate) token: UserToken,
}

/// What a new token is to be.
pub(crate) struct Wanted {
    pub(crate) user: String,
    pub(crate) is_operator: bool,
    pub(crate) by: String,
    pub(crate) expires_at: Option<Time>,
}

/// The table of users' tokens.
pub struct Users {
    /// Which secret the manager has: tokens of another are void. `None`: it only reads a store, and does not know.
    era: Option<u32>,
    entries: RwLock<BTreeMap<TokenId, Entry>>,
    /// Counts changes after which a token may be void.
    changes: watch::Sender<u64>,
    /// The latest time that was seen, in microseconds: a clock that is put back brings no token back.
    latest: AtomicU64,
    own: own::Own,
    accounts: Accounts,
}

struct Entry {
    token: UserToken,
    made_at: Time,
    /// It is in no store, and not listed.
    is_lent: bool,
    revoked: Option<(Time, String)>,
    /// Microseconds, 0: not known to have been used.
    used_at: AtomicU64,
    /// As it was last kept.
    used_kept: AtomicU64,
}

impl Entry {
    fn new(token: UserToken, made_at: Time) -> Entry {
        let (used_at, used_kept) = (AtomicU64::new(0), AtomicU64::new(0));
        Entry { token, made_at, is_lent: false, revoked: None, used_at, used_kept }
    }

    fn state(&self, era: Option<u32>, now: Time) -> TokenState {
        match &self.token {
            _ if self.revoked.is_some() => TokenState::Revoked,
            token if era.is_some_and(|era| token.era != era) => TokenState::Void,
            UserToken { expires_at: Some(expires_at), .. } if *expires_at <= now => TokenState::Expired,
            _ => TokenState::Valid,
        }
    }

    fn check(&self, era: Option<u32>, now: Time) -> Result<(), Void> {
        let (id, user) = (self.token.id, self.token.user.clone());
        match self.state(era, now) {
            TokenState::Valid => Ok(()),
            TokenState::Revoked => Err(Void::Revoked { id, user }),
            TokenState::Expired => Err(Void::Expired { id, user }),
            TokenState::Void => Err(Void::Era { id, user }),
        }
    }

    fn view(&self, era: Option<u32>, own: Option<TokenId>, now: Time) -> TokenView {
        let UserToken { id, user, is_operator, by, expires_at, .. } = self.token.clone();
        TokenView {
            id,
            user,
            is_operator,
            state: self.state(era, now),
            made_at: self.made_at,
            made_by: by,
            expires_at,
            used_at: Some(Time(self.used_at.load(Relaxed))).filter(|at| at.0 > 0),
            revoked_at: self.revoked.as_ref().map(|(at, _)| *at),
            revoked_by: self.revoked.as_ref().map(|(_, by)| by.clone()),
            is_own: own == Some(id),
        }
    }
}

impl Users {
    /// An empty table of a manager whose secret is of this era, or of one that only reads a store.
    pub(crate) fn new(era: Option<u32>) -> Users {
        Users {
            era,
            entries: RwLock::default(),
            changes: watch::Sender::new(0),
            latest: AtomicU64::new(0),
            own: own::Own::default(),
            accounts: Accounts::default(),
        }
    }

    /// Takes over what a record says of tokens.
    pub fn note(&self, record: &Record) {
        self.latest.fetch_max(record.at().0, Relaxed);
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        match record {
            Record::TokenMade { token, at } => {
                entries.insert(token.id, Entry::new(token.clone(), *at));
            }
            Record::TokensRevoked { ids, by, at } => {
                for id in ids {
                    if let Some(entry) = entries.get_mut(id) {
                        entry.revoked.get_or_insert_with(|| (*at, by.clone()));
                    }
                }
                drop(entries);
                self.changes.send_modify(|n| *n += 1);
            }
            Record::TokensUsed { used, .. } => {
                for (id, at) in used {
                    if let Some(entry) = entries.get(id) {
                        entry.used_at.fetch_max(at.0, Relaxed);
                        entry.used_kept.fetch_max(at.0, Relaxed);
                    }
                }
            }
            _ => {}
        }
    }

    /// Draws a token. Nobody can use it yet.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn draw(&self, wanted: Wanted) -> Result<Drawn, ring::error::Unspecified> {
        let random = SystemRandom::new();
        let (mut secret, mut bits) = ([0; SECRET_BYTES], [0; 6]);
        random.fill(&mut secret)?;
        let id = loop {
            random.fill(&mut bits)?;
            let id = TokenId::new(bits);
            if !self.read().contains_key(&id) && !self.own.was_revoked(id) {
                break id;
            }
        };
        Ok(self.drawn(id, &URL_SAFE_NO_PAD.encode(secret), wanted))
    }

    /// Takes a token that is kept nowhere.
    pub(crate) fn lend(&self, token: UserToken) {
        let entry = Entry { is_lent: true, ..Entry::new(token, self.now()) };
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(entry.token.id, entry);
    }

    fn drawn(&self, id: TokenId, secret: &str, wanted: Wanted) -> Drawn {
        let Wanted { user, is_operator, by, expires_at } = wanted;
        let sha256 = hash(secret);
        let token =
            UserToken { id, sha256, era: self.era.unwrap_or_default(), user, is_operator, by, expires_at };
        Drawn { text: format!("{PREFIX}{id}_{secret}"), token }
    }

    /// Whose token this is; `None`: it was not made here. Why it is void is told only to who has its secret part.
    pub(crate) fn verify(&self, token: &str) -> Option<Result<Holder, Void>> {
        let (id, secret) = token.strip_prefix(PREFIX)?.split_once('_')?;
        let entries = self.read();
        let entry = entries.get(&id.parse().ok()?)?;
        if !are_equal(&hash(secret).0, &entry.token.sha256.0) {
            return None;
        }
        let now = self.now();
        Some(entry.check(self.era, now).map(|()| {
            if now.since(Time(entry.used_at.load(Relaxed))) >= USE_GRAIN {
                entry.used_at.store(now.0, Relaxed);
            }
            let UserToken { id, user, is_operator, .. } = &entry.token;
            Holder { token: *id, name: user.clone(), is_operator: *is_operator }
        }))
    }

    /// Ends when the token is void, with the reason.
    pub(crate) async fn void(self: Arc<Users>, id: TokenId) -> Void {
        let mut changes = self.changes.subscribe();
        loop {
            let expires_at = match self.standing(id) {
                Some(Ok(expires_at)) => expires_at,
                Some(Err(void)) => return void,
                // Nobody asks about a token that was not made here.
                None => return std::future::pending().await,
            };
            let due = async {
                match expires_at {
                    Some(at) => {
                        let left = Duration::from_micros(at.since(self.now()).0) + Duration::from_millis(1);
                        tokio::time::sleep(left.min(EXPIRY_LOOK)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The sender is part of this table, so this is never an error.
                _ = changes.changed() => {}
                () = due => {}
            }
        }
    }

    /// When a token expires, or why it is void; `None`: it was not made here.
    fn standing(&self, id: TokenId) -> Option<Result<Option<Time>, Void>> {
        let entries = self.read();
        let entry = entries.get(&id)?;
        Some(entry.check(self.era, self.now()).map(|()| entry.token.expires_at))
    }

    /// All tokens, by user and in the order in which they were made.
    pub(crate) fn views(&self) -> Vec<TokenView> {
        let (now, own) = (self.now(), self.own.id());
        let mut views: Vec<_> = self
            .read()
            .values()
            .filter(|entry| !entry.is_lent)
            .map(|entry| entry.view(self.era, own, now))
            .collect();
        views.sort_by(|one, other| {
            (&one.user, one.made_at, one.id).cmp(&(&other.user, other.made_at, other.id))
        });
        views
    }

    /// Users who have access and may not do everything anyway, without the manager's owner.
    pub(crate) fn untrusted(&self) -> Vec<String> {
        let owner = self.own.user();
        let is_one = |view: &TokenView| {
            view.state == TokenState::Valid && !view.is_operator && Some(&view.user) != owner.as_ref()
        };
        let mut names: Vec<String> = self.views().into_iter().filter(is_one).map(|view| view.user).collect();
        names.dedup();
        names
    }

    /// Whether a user may do everything: the manager's owner, or who has an operator's token.
    pub(crate) fn is_operator(&self, name: &str) -> bool {
        let now = self.now();
        let is_one = |entry: &Entry| {
            entry.token.is_operator && entry.token.user == name && entry.check(self.era, now).is_ok()
        };
        self.own.user().is_some_and(|owner| owner == name) || self.read().values().any(is_one)
    }

    /// Platforms whose tasks have the manager's account.
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Where the manager's own token is written to.
    pub(crate) fn own(&self) -> &own::Own {
        &self.own
    }

    /// Tokens that were used long after what is kept of them, with when that was.
    fn used_since_kept(&self) -> Vec<(TokenId, Time)> {
        let entries = self.read();
        let used = entries.values().filter_map(|entry| {
            let (at, kept) = (Time(entry.used_at.load(Relaxed)), Time(entry.used_kept.load(Relaxed)));
            (at.since(kept) >= USE_KEPT_GRAIN && !entry.is_lent).then_some((entry.token.id, at))
        });
        used.collect()
    }

    /// Microseconds since 1970, and never less than before.
    pub(crate) fn now(&self) -> Time {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        Time(self.latest.fetch_max(now, Relaxed).max(now))
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<TokenId, Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps when tokens were last used, now and then, for as long as the manager lives.
pub(crate) async fn keep_uses(handle: Handle, users: Arc<Users>) {
    loop {
        tokio::time::sleep(USE_INTERVAL).await;
        let used = users.used_since_kept();
        if used.is_empty() {
            continue;
        }
        users.note(&Record::TokensUsed { used: used.clone(), at: Time(0) });
        if handle.tell(Event::TokensUsed { used }).await.is_err() {
            return;
        }
    }
}

/// SHA-256 of the secret part: its 256 drawn bits need no slow hash.
fn hash(secret: &str) -> Digest {
    let hashed = digest::digest(&digest::SHA256, secret.as_bytes());
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(hashed.as_ref()).for_each(|(byte, of)| *byte = *of);
    Digest(bytes)
}

/// Compares in a time that does not depend on where they differ.
fn are_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differences = one.iter().zip(other).fold(0, |found, (one, other)| found | (one ^ other));
    std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests;
