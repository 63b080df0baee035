//! HTTP clients for other pilots; each accepts one certificate.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use protocol::peers::Peer;
use reqwest::redirect::Policy;
use scheduler::digest::Digest;

use crate::sys::pin;

/// Limits for connecting and for a silent connection: other pilots of the platform are near, and there are
/// several.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The most pilots to which connections are kept.
const N_PEERS_MAX: usize = 64;

/// The clients for other pilots, by their certificates.
#[derive(Debug, Default)]
pub struct PeerClients(Mutex<HashMap<Digest, reqwest::Client>>);

impl PeerClients {
    /// Returns the client for another pilot.
    ///
    /// # Errors
    /// The client cannot be created.
    pub fn of(&self, peer: &Peer) -> reqwest::Result<reqwest::Client> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&peer.certificate_sha256) {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(Policy::none())
            .tls_backend_preconfigured(pin::tls_config(peer.certificate_sha256.0))
            .build()?;
        if clients.len() >= N_PEERS_MAX {
            clients.clear();
        }
        clients.insert(peer.certificate_sha256, client.clone());
        Ok(client)
    }
}
