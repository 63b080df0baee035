//! The platforms whose tasks have the manager's own account, beside the users to whom that matters.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// How the tasks of a platform share the manager's account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sharing {
    /// A clause: who may do what.
    pub(crate) why: String,
    /// Whether it is a reason to refuse users.
    pub(crate) is_refused: bool,
    /// What to do about it then.
    pub(crate) ways: &'static str,
}

/// What is known of the platforms, by name.
#[derive(Default)]
pub(crate) struct Accounts {
    known: Mutex<BTreeMap<String, Sharing>>,
    turn: tokio::sync::Mutex<()>,
}

impl Accounts {
    /// Held by whoever adds a user or a platform, from the look at what is there until the addition is known: two at one
    /// moment would not see each other.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Takes note of a platform; `None`: its tasks have another account.
    pub(crate) fn note(&self, platform: &str, sharing: Option<Sharing>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match sharing {
            Some(sharing) => _ = known.insert(platform.to_owned(), sharing),
            None => _ = known.remove(platform),
        }
    }

    /// All of which something is to be said.
    pub(crate) fn all(&self) -> BTreeMap<String, Sharing> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
