//! The manager's own token, that of its owner in `access.json`. It follows from the manager's secret, so that a copy
//! of the file goes on after a restart; when it is revoked, the next one takes its place at once.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use protocol::api::AccessFile;
use scheduler::{
    engine::{interface::users::TokenId, record::Record},
    time::Time,
};

use crate::security::private_file::write_private;
use crate::security::users::{Drawn, Users, Wanted, revoked::Revoked};

/// See the module.
#[derive(Default)]
pub(crate) struct Own(Mutex<Held>);

#[derive(Default)]
struct Held {
    revoked: Revoked,
    /// The manager's own token, and its user.
    own: Option<(TokenId, String)>,
    /// The access file as it was last written.
    access: Option<(PathBuf, AccessFile)>,
}

impl Own {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which token it is; `None` for who only reads a store.
    pub(crate) fn id(&self) -> Option<TokenId> {
        self.held().own.as_ref().map(|(id, _)| *id)
    }

    /// The manager's owner.
    pub(crate) fn user(&self) -> Option<String> {
        self.held().own.as_ref().map(|(_, user)| user.clone())
    }

    pub(super) fn was_revoked(&self, id: TokenId) -> bool {
        self.held().revoked.has(id)
    }

    /// Remembers that tokens were revoked, also for a store that is put back. Blocks while it writes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn remember(&self, ids: &[TokenId]) -> io::Result<()> {
        self.held().revoked.add(ids)
    }

    /// Says where the access file is.
    pub(crate) fn written(&self, path: &Path, access: &AccessFile) {
        self.held().access = Some((path.to_owned(), access.clone()));
    }

    /// The access file as it was last written.
    pub(crate) fn access(&self) -> Option<(PathBuf, AccessFile)> {
        self.held().access.clone()
    }

    /// Writes another token of the owner's to the access file. Blocks while it writes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn replace(&self, drawn: &Drawn) -> io::Result<()> {
        let mut held = self.held();
        held.own = Some((drawn.token.id, drawn.token.user.clone()));
        let Some((path, access)) = &mut held.access else { return Ok(()) };
        access.token.clone_from(&drawn.text);
        write_private(path, &serde_json::to_vec_pretty(access)?)
    }
}

/// The first own token that was not revoked. `derive`: id and secret part of the one of a number.
pub(crate) fn next(users: &Users, user: &str, derive: impl Fn(u64) -> (TokenId, String)) -> Drawn {
    let mut n = 0_u64;
    loop {
        let (id, secret) = derive(n);
        let is_void = users.standing(id).is_some_and(|standing| standing.is_err());
        if !is_void && !users.own.was_revoked(id) {
            let (user, by) = (user.to_owned(), user.to_owned());
            return users.drawn(id, &secret, Wanted { user, is_operator: true, by, expires_at: None });
        }
        n += 1;
    }
}

/// What must be recorded before the manager starts, so that its owner has a token and what was revoked stays so, and
/// the owner's token. `records`: those of the store; `derive`: as for [`next`].
///
/// # Errors
/// The file of revoked tokens cannot be read or written.
pub(crate) fn prepare(
    users: &Users,
    (folder, user): (&Path, &str),
    records: &[Record],
    at: Time,
    derive: impl Fn(u64) -> (TokenId, String),
) -> io::Result<(Vec<Record>, String)> {
    records.iter().for_each(|record| users.note(record));
    let mut revoked = Revoked::open(folder)?;
    let of_store: Vec<TokenId> =
        users.read().values().filter(|entry| entry.revoked.is_some()).map(|entry| entry.token.id).collect();
    revoked.add(&of_store)?;
    let mut made = Vec::new();
    let forgotten: Vec<TokenId> = users
        .read()
        .values()
        .filter(|entry| entry.revoked.is_none() && revoked.has(entry.token.id))
        .map(|entry| {
            tracing::warn!(
                token = %entry.token.id, user = entry.token.user,
                "the store does not know that this token was revoked: it was put back from a backup; it stays revoked"
            );
            entry.token.id
        })
        .collect();
    if !forgotten.is_empty() {
        made.push(Record::TokensRevoked { ids: forgotten, by: "the file `revoked`".to_owned(), at });
        made.iter().for_each(|record| users.note(record));
    }
    users.own.held().revoked = revoked;
    let drawn = next(users, user, derive);
    let id = drawn.token.id;
    if users.standing(id).is_none() {
        let record = Record::TokenMade { token: drawn.token, at };
        users.note(&record);
        made.push(record);
    }
    users.own.held().own = Some((id, user.to_owned()));
    Ok((made, drawn.text))
}
