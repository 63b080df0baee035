//! One file over the network: from the manager or an address into the cache, from a folder to the manager.
//! Streams; whether to try again is for who asks.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use protocol::{
    codec::MESSAGE_BYTES_MAX,
    job::limits::OBJECT_BYTES_MAX,
    objects::{
        PILOT_OBJECTS_PATH, PILOT_STORE_FILES_PATH, PILOT_STORES_PATH, PILOT_TASKS_PATH, StoreAccess,
        StoreQuery, StoreWay, TakenFrom, TakenPage,
    },
    peers::{PEER_OBJECTS_PATH, Peer},
    pilot::ErrorAnswer,
};
use reqwest::{Body, Response, StatusCode, Url, header};
use scheduler::{
    digest::Digest,
    ids::{JobId, TaskId},
};
use serde::de::DeserializeOwned;

use super::cache::{Cache, Part};
use crate::{
    client::{ClientError, address_pin},
    pin,
};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Whoever sends nothing for so long sends no more.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The same of pilots of the platform, who are near: else there are others.
const PEER_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const PEER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Pilots to which connections are kept at most.
const N_PEERS_MAX: usize = 64;
/// What is read of a refusal.
const REFUSAL_BYTES_MAX: usize = 16 << 10;
/// A file goes in pieces of this size.
const PIECE_BYTES: usize = 128 << 10;
/// Before more than this is sent, it is asked whether it is there.
const ASKED_BYTES_MIN: u64 = 1 << 20;

/// Why a transfer failed.
#[derive(Debug)]
pub enum Trouble {
    /// The manager is not there, or has no time: no fault of the transfer.
    Away(String),
    /// The manager has no room for it, which somebody will have to make.
    Full(String),
    /// It may go better the next time.
    Brief(String),
    /// It will not.
    Lasting(String),
    /// This node's disk.
    Disk(io::Error),
}

/// Why another pilot does not give an object.
#[derive(Debug)]
pub enum NoGift {
    /// It serves enough others now.
    Busy,
    /// It has it no more, or does not know us.
    None,
    /// It cannot be reached, or broke off.
    Away(String),
    /// This node's disk.
    Disk(io::Error),
}

/// The ways to the manager and to the world.
pub struct Ways {
    manager: reqwest::Client,
    world: reqwest::Client,
    /// Why nobody can be trusted there, on a node where that is so.
    distrust: Option<String>,
    url: String,
    /// By their certificates.
    peers: Mutex<HashMap<Digest, reqwest::Client>>,
}

impl Ways {
    /// # Errors
    /// The manager's address is none.
    pub fn new(url: &str, certificate_sha256: Option<&str>) -> Result<Ways, ClientError> {
        let builder =
            || reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT);
        let url = url.trim_end_matches('/').to_owned();
        let pin = address_pin(&url, certificate_sha256)?.unwrap_or([0; 32]);
        let manager = builder()
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(pin::tls_config(pin));
        let manager = if crate::client::is_loopback(&url) { manager.no_proxy() } else { manager };
        let manager = manager.build().map_err(ClientError::Setup)?;
        // Another one that was chosen before does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Where a node has no authorities to trust, only what needs them fails.
        let (world, distrust) = match builder().build() {
            Ok(world) => (world, None),
            Err(error) => {
                let trusting_nobody = builder().tls_backend_preconfigured(pin::tls_config([0; 32]));
                (trusting_nobody.build().map_err(ClientError::Setup)?, Some(cause(&error)))
            }
        };
        Ok(Ways { manager, world, distrust, url, peers: Mutex::default() })
    }

    /// The way to an address of the world.
    fn world(&self, url: &str) -> Result<&reqwest::Client, Trouble> {
        match &self.distrust {
            Some(why) if url.starts_with("https:") => Err(Trouble::Lasting(why.clone())),
            _ => Ok(&self.world),
        }
    }

    fn object(&self, sha256: &Digest) -> String {
        format!("{}{PILOT_OBJECTS_PATH}/{sha256}", self.url)
    }

    /// What the manager has under this digest.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn object_of_manager(
        &self,
        session: &str,
        sha256: &Digest,
        cache: &Cache,
        n_expected: u64,
    ) -> Result<Part, Trouble> {
        let request = self.manager.get(self.object(sha256)).bearer_auth(session);
        let response = request.send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        let response = accepted(response, true).await?;
        stream(response, cache, n_expected).await
    }

    /// What a task takes of what others have left, page by page.
    ///
    /// # Errors
    /// See [`Trouble`]; also `Away` where the manager does not know yet that the task is this pilot's.
    pub async fn taken(&self, session: &str, task: TaskId, from: TakenFrom) -> Result<TakenPage, Trouble> {
        let TaskId { job, index } = task;
        let TakenFrom { input, task } = from;
        let url = format!("{}{PILOT_TASKS_PATH}/{job}/{index}/inputs?input={input}&task={task}", self.url);
        let request = self.manager.get(url).bearer_auth(session);
        let response = request.send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        if response.status() == StatusCode::CONFLICT {
            return Err(Trouble::Away("the manager does not know whose task it is".to_owned()));
        }
        answer(accepted(response, true).await?).await
    }

    /// What is at a place in a store: from there, or by the manager.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn object_in_store(
        &self,
        session: &str,
        (job, place): (JobId, &str),
        cache: &Cache,
    ) -> Result<Part, Trouble> {
        let query = StoreQuery { job, place: place.to_owned(), way: StoreAccess::Read };
        if let Some(url) = self.way(session, &query).await? {
            return self.object_at(&url, cache).await;
        }
        let request = self.manager.get(self.store_file(&query)?).bearer_auth(session);
        let response = request.send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        let response = accepted(response, true).await?;
        let n_expected = response.content_length().unwrap_or(0);
        stream(response, cache, n_expected).await
    }

    /// Brings a file to a place in a store.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn to_store(
        &self,
        session: &str,
        (job, place): (JobId, &str),
        (file, n_bytes): (File, u64),
    ) -> Result<(), Trouble> {
        let query = StoreQuery { job, place: place.to_owned(), way: StoreAccess::Write };
        let signed = self.way(session, &query).await?;
        let is_manager = signed.is_none();
        let request = match &signed {
            Some(url) => self.world(url)?.put(url),
            None => self.manager.put(self.store_file(&query)?).bearer_auth(session),
        };
        let request = request.header(header::CONTENT_LENGTH, n_bytes).body(pieces_of(file));
        let response = request.send().await.map_err(|error| match is_manager {
            true => Trouble::Away(cause(&error)),
            false => Trouble::Brief(cause(&error)),
        })?;
        accepted(response, is_manager).await.map(drop)
    }

    /// The address by which the store itself gives or takes it; `None`: the manager does.
    async fn way(&self, session: &str, query: &StoreQuery) -> Result<Option<String>, Trouble> {
        let url = self.with_query(PILOT_STORES_PATH, query)?;
        let request = self.manager.get(url).bearer_auth(session);
        let response = request.send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        let way: StoreWay = answer(accepted(response, true).await?).await?;
        Ok(way.url)
    }

    fn store_file(&self, query: &StoreQuery) -> Result<Url, Trouble> {
        self.with_query(PILOT_STORE_FILES_PATH, query)
    }

    fn with_query(&self, path: &str, query: &StoreQuery) -> Result<Url, Trouble> {
        let StoreQuery { job, place, way } = query;
        let way = match way {
            StoreAccess::Read => "read",
            StoreAccess::Write => "write",
        };
        let job = job.to_string();
        let query = [("job", job.as_str()), ("place", place), ("way", way)];
        Url::parse_with_params(&format!("{}{path}", self.url), query)
            .map_err(|error| Trouble::Lasting(error.to_string()))
    }

    /// What another pilot has under this digest.
    ///
    /// # Errors
    /// See [`NoGift`].
    pub async fn object_of_peer(
        &self,
        (peer, token): (&Peer, &str),
        sha256: &Digest,
        cache: &Cache,
        n_expected: u64,
    ) -> Result<Part, NoGift> {
        let client = self.peer(peer).map_err(|error| NoGift::Away(cause(&error)))?;
        let request = client.get(format!("{}{PEER_OBJECTS_PATH}/{sha256}", peer.url)).bearer_auth(token);
        let response = request.send().await.map_err(|error| NoGift::Away(cause(&error)))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::SERVICE_UNAVAILABLE => return Err(NoGift::Busy),
            _ => return Err(NoGift::None),
        }
        stream(response, cache, n_expected).await.map_err(|trouble| match trouble {
            Trouble::Disk(error) => NoGift::Disk(error),
            Trouble::Away(what) | Trouble::Full(what) | Trouble::Brief(what) | Trouble::Lasting(what) => {
                NoGift::Away(what)
            }
        })
    }

    /// The way to another pilot.
    ///
    /// # Errors
    /// There can be no client.
    pub fn peer(&self, peer: &Peer) -> reqwest::Result<reqwest::Client> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = peers.get(&peer.certificate_sha256) {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(PEER_CONNECT_TIMEOUT)
            .read_timeout(PEER_READ_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(pin::tls_config(peer.certificate_sha256.0))
            .build()?;
        if peers.len() >= N_PEERS_MAX {
            peers.clear();
        }
        peers.insert(peer.certificate_sha256, client.clone());
        Ok(client)
    }

    /// What is at an address.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn object_at(&self, url: &str, cache: &Cache) -> Result<Part, Trouble> {
        let response = self.world(url)?.get(url).send().await.map_err(|error| match error.is_builder() {
            true => Trouble::Lasting(cause(&error)),
            false => Trouble::Brief(cause(&error)),
        })?;
        let response = accepted(response, false).await?;
        let n_expected = response.content_length().unwrap_or(0);
        stream(response, cache, n_expected).await
    }

    /// Brings a file to the manager, unless it has it.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn to_manager(
        &self,
        session: &str,
        file: File,
        (sha256, n_bytes): (Digest, u64),
    ) -> Result<(), Trouble> {
        let url = self.object(&sha256);
        if n_bytes >= ASKED_BYTES_MIN {
            let asked = self.manager.head(&url).bearer_auth(session).send().await;
            if asked.map_err(|error| Trouble::Away(cause(&error)))?.status().is_success() {
                return Ok(());
            }
        }
        let request = self
            .manager
            .put(&url)
            .bearer_auth(session)
            .header(header::CONTENT_LENGTH, n_bytes)
            .body(pieces_of(file));
        let response = request.send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        accepted(response, true).await.map(drop)
    }
}

fn pieces_of(file: File) -> Body {
    Body::wrap_stream(futures_util::stream::try_unfold(file, |mut file| async {
        let mut piece = vec![0; PIECE_BYTES];
        let n = file.read(&mut piece)?;
        piece.truncate(n);
        Ok::<_, io::Error>((n > 0).then_some((piece, file)))
    }))
}

/// What the manager says, in JSON.
async fn answer<T: DeserializeOwned>(mut response: Response) -> Result<T, Trouble> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Trouble::Brief(cause(&error)))? {
        body.extend_from_slice(&chunk);
        if body.len() > MESSAGE_BYTES_MAX {
            return Err(Trouble::Lasting("the manager's answer has no end".to_owned()));
        }
    }
    serde_json::from_slice(&body).map_err(|error| Trouble::Brief(error.to_string()))
}

/// The response, if it is what was asked for.
async fn accepted(mut response: Response, is_manager: bool) -> Result<Response, Trouble> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk[..chunk.len().min(REFUSAL_BYTES_MAX - body.len())]);
        if body.len() == REFUSAL_BYTES_MAX {
            break;
        }
    }
    let words = match serde_json::from_slice::<ErrorAnswer>(&body) {
        Ok(answer) if is_manager => format!("the manager says: {}", answer.error.message),
        _ => format!("the server answers {status}"),
    };
    Err(match status {
        // It restarts, or the session is being made anew.
        StatusCode::UNAUTHORIZED | StatusCode::SERVICE_UNAVAILABLE if is_manager => Trouble::Away(words),
        StatusCode::INSUFFICIENT_STORAGE if is_manager => Trouble::Full(words),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS | StatusCode::TOO_EARLY => {
            Trouble::Brief(words)
        }
        StatusCode::UNPROCESSABLE_ENTITY if is_manager => Trouble::Brief(words),
        status if status.is_client_error() || status.is_redirection() => Trouble::Lasting(words),
        _ => Trouble::Brief(words),
    })
}

async fn stream(mut response: Response, cache: &Cache, n_expected: u64) -> Result<Part, Trouble> {
    let mut part = cache.begin(n_expected).map_err(Trouble::Disk)?;
    while let Some(chunk) = response.chunk().await.map_err(|error| Trouble::Brief(cause(&error)))? {
        part.write(&chunk).map_err(Trouble::Disk)?;
        if part.n_bytes() > OBJECT_BYTES_MAX {
            return Err(Trouble::Lasting("it has more than 1 TiB, which is the most".to_owned()));
        }
    }
    Ok(part)
}

/// What happened, without the address, which is told beside it.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
