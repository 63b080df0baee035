//! Who is connected. A stranger is a connection on which no right token has come yet. When all places
//! are taken the oldest stranger gives its place to a newcomer; when nobody is a stranger, newcomers are
//! told so at once. So a flood of connections keeps out nobody who is known.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use tokio::task::AbortHandle;

use crate::api::http::{counts::Share, error::ApiError};

/// Newcomers that are being told that there is no place; more are not even told.
const N_SURPLUS_MAX: usize = 256;

/// All connections.
pub(in crate::api) struct Crowd {
    n_max: usize,
    n_placed: Arc<AtomicUsize>,
    n_surplus: Arc<AtomicUsize>,
    /// Those that were strangers when last looked at, oldest first.
    strangers: VecDeque<(Weak<Guest>, AbortHandle)>,
}

/// One connection. Its place is free when the last that holds it is gone.
#[derive(Debug)]
pub(in crate::api) struct Guest {
    is_known: AtomicBool,
    /// There was no place: every request is refused.
    pub(in crate::api) is_surplus: bool,
    /// The platform through whose door it came.
    pub(in crate::api) platform: Option<Arc<str>>,
    /// A pilot of that platform has spoken on it.
    is_let_in: AtomicBool,
    /// Counts it among the connections of its user.
    share: OnceLock<Share>,
    /// Counts those who are here like this one.
    n_like_it: Arc<AtomicUsize>,
}

impl Guest {
    /// A right token has come.
    pub(in crate::api) fn is_recognized(&self) {
        self.is_known.store(true, Relaxed);
    }

    pub(in crate::api) fn is_let_in(&self) -> bool {
        self.is_let_in.load(Relaxed)
    }

    /// A token of a pilot of its platform has come.
    pub(in crate::api) fn let_in(&self) {
        self.is_let_in.store(true, Relaxed);
    }

    /// A user's token has come: the first time it is counted among the user's connections. Errors: those of `count`.
    pub(in crate::api) fn belongs_to(
        &self,
        count: impl FnOnce() -> Result<Share, ApiError>,
    ) -> Result<(), ApiError> {
        if self.share.get().is_none() {
            // Requests of one connection come one after the other.
            let _ = self.share.set(count()?);
        }
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.n_like_it.fetch_sub(1, Relaxed);
    }
}

impl Crowd {
    /// With so many places.
    pub(in crate::api) fn new(n_max: usize) -> Crowd {
        Crowd { n_max, n_placed: Arc::default(), n_surplus: Arc::default(), strangers: VecDeque::new() }
    }

    /// A newcomer, through the door of that platform; `None`: there is not even room to refuse it.
    pub(in crate::api) fn admit(&mut self, platform: Option<Arc<str>>) -> Option<Arc<Guest>> {
        let is_surplus = self.n_placed.load(Relaxed) >= self.n_max && !self.send_stranger_away();
        let n_like_it = if is_surplus { &self.n_surplus } else { &self.n_placed };
        if is_surplus && n_like_it.load(Relaxed) >= N_SURPLUS_MAX {
            return None;
        }
        n_like_it.fetch_add(1, Relaxed);
        Some(Arc::new(Guest {
            is_known: AtomicBool::new(false),
            is_surplus,
            platform,
            is_let_in: AtomicBool::new(false),
            share: OnceLock::new(),
            n_like_it: n_like_it.clone(),
        }))
    }

    /// The newcomer's connection has begun.
    pub(in crate::api) fn seat(&mut self, guest: Weak<Guest>, connection: AbortHandle) {
        // Those that are known or gone by now are forgotten when they are as many as can be here.
        if self.strangers.len() >= 2 * self.n_max {
            self.strangers.retain(is_stranger);
        }
        self.strangers.push_back((guest, connection));
    }

    /// Ends the connection of the oldest stranger who has a place; whether there was one.
    pub(in crate::api) fn send_stranger_away(&mut self) -> bool {
        while let Some(oldest) = self.strangers.pop_front() {
            if is_stranger(&oldest) {
                oldest.1.abort();
                return true;
            }
        }
        false
    }
}

fn is_stranger((guest, _): &(Weak<Guest>, AbortHandle)) -> bool {
    guest.upgrade().is_some_and(|guest| !guest.is_known.load(Relaxed) && !guest.is_surplus)
}
