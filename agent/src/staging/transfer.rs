//! Transfers one file over the network: from the manager or an address into the cache, or from a folder to
//! the manager or a store. Streams the contents; the caller decides about retries.

pub(crate) mod netrc;
pub(super) mod pace;
pub(crate) mod replies;
pub(crate) mod routes;
pub(super) mod trouble;
pub(crate) mod upload;
pub(crate) mod versions;

use std::{fs::File, io, path::PathBuf, time::Duration};

use protocol::{
    files::{
        objects::{
            FileWait, FileWaits, PILOT_OBJECTS_PATH, PILOT_PACKS_PATH, PILOT_STORE_FILES_PATH,
            PILOT_STORES_PATH, PILOT_TASKS_PATH, PILOT_WAITS_PATH, PackRequest, StoreAccess, StoreQuery,
            StoreWay, TakenFrom, TakenPage,
        },
        pack::PACK_BYTES_MAX,
    },
    job::limits::OBJECT_BYTES_MAX,
    peers::{PEER_OBJECTS_PATH, Peer},
};
use reqwest::{
    RequestBuilder, Response, StatusCode, Url,
    header::{self, HeaderValue},
    redirect::Policy,
};
use scheduler::{
    digest::Digest,
    ids::{JobId, TaskId},
};
use tokio::time::timeout;

use self::{
    pace::Pace,
    replies::{Wanted, accepted, answer, body},
    routes::{Route, Routes},
    trouble::{Trouble, cause},
    versions::{ContentRange, content_range, validator},
};
use super::{
    cache::{Cache, Part},
    silences::Silences,
    waits::Progress,
};
use crate::{
    peers::PeerClients,
    session::client::{ClientError, address_pin},
    sys::pin,
};

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without data after which a download from the manager is given up.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Time without progress after which an upload is given up.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(120);
/// Time without data after which a server of the network is given up; it is asked [`N_SILENT_MAX`] times.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most requests to a silent server for one file: a minute and a half, and pauses.
pub(super) const N_SILENT_MAX: u32 = 3;
/// The next request to a silent server or for a silent file gets one of this many parts of the time.
const SILENT_PART: u32 = 6;
/// The `User-Agent` for servers of the network.
const USER_AGENT: &str = concat!("pilotfish/", env!("CARGO_PKG_VERSION"));
/// For files of this size and above, the manager is first asked whether it has them.
const ASKED_BYTES_MIN: u64 = 1 << 20;

/// The reason why another pilot does not send an object.
#[derive(Debug)]
pub enum NoGift {
    /// It is busy with other pilots.
    Busy,
    /// It does not have the object any more, or does not accept our token.
    None,
    /// It cannot be reached, or the transfer broke off.
    Away(String),
    /// This node's disk fails.
    Disk(io::Error),
}

/// A download that broke off, with the facts that identify the file's version.
pub struct Partial {
    part: Part,
    /// The file's `ETag` or `Last-Modified`; `None`: its SHA-256 is known and identifies it.
    validator: Option<HeaderValue>,
    /// Bytes of the whole file, if the server has sent that.
    n_total: Option<u64>,
}

impl Partial {
    /// Returns whether a range that a server sends is the rest of this file. A range without a version may be
    /// of another file.
    fn goes_on_with(&self, range: &ContentRange, validator: Option<&HeaderValue>) -> bool {
        let differs = |ours: u64| range.n_total.is_some_and(|theirs| theirs != ours);
        let is_another = self.validator.as_ref().is_some_and(|ours| validator != Some(ours));
        range.begins_at == self.n_bytes() && !self.n_total.is_some_and(differs) && !is_another
    }

    /// Returns the number of bytes that are here.
    pub fn n_bytes(&self) -> u64 {
        self.part.n_bytes()
    }
}

/// The target of a download, and its earlier part.
pub struct Download<'d> {
    /// The cache.
    pub cache: &'d Cache,
    /// Whether the file's SHA-256 is known.
    pub is_known: bool,
    /// The part before the last break; after another break the new part.
    pub partial: &'d mut Option<Partial>,
    /// Where to report the progress.
    pub progress: Option<&'d Progress>,
}

/// The HTTP clients for the manager and for servers of the network.
pub struct Ways {
    manager: reqwest::Client,
    pub(super) world: reqwest::Client,
    /// Clients for uploads, which have no time limit.
    manager_up: reqwest::Client,
    world_up: reqwest::Client,
    /// The reason why no server of the network can be trusted, on a node without certificate authorities.
    distrust: Option<String>,
    url: String,
    /// The clients for other pilots.
    pub(super) peers: PeerClients,
    /// File with names and passwords for servers of the network.
    pub(super) netrc: Option<PathBuf>,
    /// Longest silence of a server of the network.
    pub(super) patience: Duration,
    /// Longest upload without progress.
    pub(super) upload_patience: Duration,
    /// Servers and files that were given up for their silence.
    pub(super) silences: Silences,
    /// Redirections and proxies of requests to servers of the network.
    pub(super) routes: Routes,
}

/// Returns the query for a place in a store, with the task if it is known.
fn store_query((job, task): (JobId, Option<TaskId>), place: &str, way: StoreAccess) -> StoreQuery {
    StoreQuery { job, place: place.to_owned(), way, executable: false, task: task.map(|task| task.index) }
}

impl Ways {
    /// Creates the clients.
    ///
    /// # Errors
    /// The manager's address is invalid.
    pub fn new(url: &str, certificate_sha256: Option<&str>) -> Result<Ways, ClientError> {
        let routes = Routes::new();
        let builder = || {
            let builder = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT);
            builder.redirect(routes.policy()).user_agent(USER_AGENT)
        };
        let url = url.trim_end_matches('/').to_owned();
        let pin = address_pin(&url, certificate_sha256)?.unwrap_or([0; 32]);
        let to_manager = || {
            let builder = builder().redirect(Policy::none()).tls_backend_preconfigured(pin::tls_config(pin));
            if protocol::net::address::is_loopback(&url) { builder.no_proxy() } else { builder }
        };
        let manager = to_manager().read_timeout(READ_TIMEOUT).build().map_err(ClientError::Setup)?;
        let manager_up = to_manager().build().map_err(ClientError::Setup)?;
        // A provider that was installed before does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // On a node without certificate authorities only https to servers of the network fails.
        let distrust = builder().build().err().map(|error| cause(&error));
        let to_world = || match distrust {
            None => builder(),
            Some(_) => builder().tls_backend_preconfigured(pin::tls_config([0; 32])),
        };
        let world = to_world().read_timeout(READ_TIMEOUT).build().map_err(ClientError::Setup)?;
        // A followed redirection would turn the upload into a request for a page.
        let world_up = to_world().redirect(Policy::none()).build().map_err(ClientError::Setup)?;
        let (netrc, peers, silences) = (netrc::path(), PeerClients::default(), Silences::default());
        Ok(Ways {
            manager,
            world,
            manager_up,
            world_up,
            distrust,
            url,
            peers,
            netrc,
            patience: PATIENCE,
            upload_patience: UPLOAD_PATIENCE,
            silences,
            routes,
        })
    }

    /// Returns the client for an address, if the server can be trusted.
    fn trusted<'w>(&self, way: &'w reqwest::Client, url: &str) -> Result<&'w reqwest::Client, Trouble> {
        match &self.distrust {
            Some(why) if url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:")) => {
                Err(Trouble::Lasting(why.clone()))
            }
            _ => Ok(way),
        }
    }

    fn object(&self, sha256: &Digest) -> String {
        format!("{}{PILOT_OBJECTS_PATH}/{sha256}", self.url)
    }

    /// Downloads an object from the manager.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn object_of_manager(
        &self,
        session: &str,
        sha256: &Digest,
        n_expected: u64,
        download: Download<'_>,
    ) -> Result<Part, Trouble> {
        let request = self.manager.get(self.object(sha256)).bearer_auth(session);
        let request = going_on(request, download.partial.as_ref());
        let response = request.send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        let wanted = Wanted::File { is_part: is_begun(download.partial) };
        let accepted = accepted(response, true, wanted).await;
        let response = accepted.inspect_err(|_| *download.partial = None)?;
        match go_on(response, download, n_expected, READ_TIMEOUT).await {
            Err(Trouble::Silent { what, .. }) => Err(Trouble::Brief(format!("the manager {what}"))),
            other => other,
        }
    }

    /// Downloads a pack of those of these files that the manager has.
    ///
    /// # Errors
    /// See [`Trouble`]. A manager of an older version has no packs.
    pub async fn pack_of_manager(&self, session: &str, sha256: &[Digest]) -> Result<Vec<u8>, Trouble> {
        let wanted = PackRequest { sha256: sha256.to_vec() };
        let request = self.manager.post(format!("{}{PILOT_PACKS_PATH}", self.url)).bearer_auth(session);
        let response = request.json(&wanted).send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        body(accepted(response, true, Wanted::Words).await?, PACK_BYTES_MAX).await
    }

    /// Uploads a pack of small files to the manager.
    ///
    /// # Errors
    /// See [`Trouble`]. A manager of an older version takes no packs.
    pub async fn pack_to_manager(
        &self,
        session: &str,
        job: Option<JobId>,
        pack: Vec<u8>,
    ) -> Result<(), Trouble> {
        let url = format!("{}{PILOT_PACKS_PATH}{}", self.url, query_of(job));
        let request = self.manager.put(url).bearer_auth(session);
        let response = request.body(pack).send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        accepted(response, true, Wanted::Words).await.map(drop)
    }

    /// Returns a page of the files that a task takes from other tasks.
    ///
    /// # Errors
    /// See [`Trouble`]; also `Away` if the manager does not know yet that the task is this pilot's.
    pub async fn taken(&self, session: &str, task: TaskId, from: TakenFrom) -> Result<TakenPage, Trouble> {
        let TaskId { job, index } = task;
        let TakenFrom { input, task } = from;
        let url = format!("{}{PILOT_TASKS_PATH}/{job}/{index}/inputs?input={input}&task={task}", self.url);
        let request = self.manager.get(url).bearer_auth(session);
        let response = request.send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        if response.status() == StatusCode::CONFLICT {
            return Err(Trouble::Away("the manager does not know whose task it is".to_owned()));
        }
        answer(accepted(response, true, Wanted::Words).await?).await
    }

    /// Tells the manager for which files tasks wait.
    ///
    /// # Errors
    /// See [`Trouble`]. A manager of an older version does not accept it.
    pub async fn tell_waits(&self, session: &str, waits: Vec<FileWait>) -> Result<(), Trouble> {
        let request = self.manager.post(format!("{}{PILOT_WAITS_PATH}", self.url)).bearer_auth(session);
        let response = request.json(&FileWaits { waits }).send().await;
        let response = response.map_err(|error| Trouble::Away(cause(&error)))?;
        accepted(response, true, Wanted::Words).await.map(drop)
    }

    /// Downloads a file from a place in a store: directly, or through the manager.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn object_in_store(
        &self,
        session: &str,
        (whose, place): ((JobId, Option<TaskId>), &str),
        download: Download<'_>,
    ) -> Result<Part, Trouble> {
        let query = store_query(whose, place, StoreAccess::Read);
        if let Some(url) = self.way(session, &query).await? {
            return self.object_at((place, &url), download).await;
        }
        let request = self.manager.get(self.store_file(&query)?).bearer_auth(session);
        let response = request.send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        let response = accepted(response, true, Wanted::File { is_part: false }).await?;
        let n_expected = response.content_length().unwrap_or(0);
        let progress = download.progress;
        let download = Download { cache: download.cache, is_known: false, partial: &mut None, progress };
        stream(response, download, n_expected).await
    }

    /// Uploads a file to a place in a store.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn to_store(
        &self,
        session: &str,
        (whose, place): ((JobId, Option<TaskId>), &str),
        (file, n_bytes, executable): (File, u64, bool),
    ) -> Result<(), Trouble> {
        let query = StoreQuery { executable, ..store_query(whose, place, StoreAccess::Write) };
        let signed = self.way(session, &query).await?;
        let is_manager = signed.is_none();
        let request = match &signed {
            Some(url) => self.trusted(&self.world_up, url)?.put(url),
            None => self.manager_up.put(self.store_file(&query)?).bearer_auth(session),
        };
        let request = request.header(header::CONTENT_LENGTH, n_bytes);
        self.send_up(request, file, is_manager).await
    }

    /// Returns the store's own signed address for a transfer; `None`: the manager transfers the file.
    async fn way(&self, session: &str, query: &StoreQuery) -> Result<Option<String>, Trouble> {
        let url = self.with_query(PILOT_STORES_PATH, query)?;
        let request = self.manager.get(url).bearer_auth(session);
        let response = request.send().await.map_err(|error| Trouble::Away(cause(&error)))?;
        let way: StoreWay = answer(accepted(response, true, Wanted::Words).await?).await?;
        Ok(way.url)
    }

    fn store_file(&self, query: &StoreQuery) -> Result<Url, Trouble> {
        self.with_query(PILOT_STORE_FILES_PATH, query)
    }

    fn with_query(&self, path: &str, query: &StoreQuery) -> Result<Url, Trouble> {
        let StoreQuery { job, place, way, executable, task } = query;
        let way = match way {
            StoreAccess::Read => "read",
            StoreAccess::Write => "write",
        };
        let mut query = vec![("job", job.to_string()), ("place", place.clone()), ("way", way.to_owned())];
        // Managers of older versions do not know these parameters.
        query.extend(executable.then(|| ("executable", "true".to_owned())));
        query.extend(task.map(|task| ("task", task.to_string())));
        Url::parse_with_params(&format!("{}{path}", self.url), query)
            .map_err(|error| Trouble::Lasting(error.to_string()))
    }

    /// Downloads an object from another pilot.
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
        let client = self.peers.of(peer).map_err(|error| NoGift::Away(cause(&error)))?;
        let request = client.get(format!("{}{PEER_OBJECTS_PATH}/{sha256}", peer.url)).bearer_auth(token);
        let response = request.send().await.map_err(|error| NoGift::Away(cause(&error)))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::SERVICE_UNAVAILABLE => return Err(NoGift::Busy),
            _ => return Err(NoGift::None),
        }
        let download = Download { cache, is_known: false, partial: &mut None, progress: None };
        stream(response, download, n_expected).await.map_err(|trouble| match trouble {
            Trouble::Disk(error) => NoGift::Disk(error),
            Trouble::Away(what)
            | Trouble::Full(what)
            | Trouble::Brief(what)
            | Trouble::Silent { what, .. }
            | Trouble::Lasting(what)
            | Trouble::Missing(what) => NoGift::Away(what),
        })
    }

    /// Downloads a file from an address. A broken download continues if the server supports it and the file
    /// is the same. `file`: the name under which a failure is remembered, because signed addresses differ
    /// each time.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn object_at(
        &self,
        (file, url): (&str, &str),
        download: Download<'_>,
    ) -> Result<Part, Trouble> {
        let server = server_of(url);
        let is_silent = self.silences.is_any(&server, file);
        let patience = if is_silent { self.patience / SILENT_PART } else { self.patience };
        let route = self.routes.begin(url);
        let came = self.object_of_world(url, (&server, &route, patience), download).await;
        if came.is_ok() {
            self.silences.forget(file);
        }
        came.map_err(|trouble| trouble.told(|what| route.told(&what)))
    }

    async fn object_of_world(
        &self,
        url: &str,
        (server, route, patience): (&str, &Route<'_>, Duration),
        download: Download<'_>,
    ) -> Result<Part, Trouble> {
        let silent = |what: &str| {
            let who = route.end().map_or_else(|| server.to_owned(), |end| server_of(end.as_str()));
            Trouble::Silent { server: server.to_owned(), what: format!("{who} {what}") }
        };
        let (login, why_none) = match self.login(url) {
            Ok(login) => (login, None),
            Err(why) => (None, Some(why)),
        };
        let mut request = going_on(self.trusted(&self.world, url)?.get(url), download.partial.as_ref());
        if let Some(value) = login.as_ref().and_then(netrc::Login::header) {
            request = request.header(header::AUTHORIZATION, value);
        }
        let response = timeout(patience, request.send()).await;
        let response = response.map_err(|_| silent(&Pace::new(patience).words()))?;
        let response = response.map_err(|error| match error.is_builder() || error.is_redirect() {
            true => Trouble::Lasting(cause(&error)),
            // Packets to the server get lost.
            false if error.is_connect() && error.is_timeout() => silent("has taken no connection in time"),
            false => Trouble::Brief(cause(&error)),
        })?;
        let status = response.status();
        // A login is not sent to the target of a redirection.
        let answering = server_of(response.url().as_str());
        let is_known = login.is_some() && answering == server;
        let wanted = Wanted::File { is_part: is_begun(download.partial) };
        let accepted = timeout(patience, accepted(response, false, wanted)).await;
        let accepted = accepted.unwrap_or_else(|_| Err(silent(&Pace::new(patience).words())));
        let response = accepted.map_err(|trouble| {
            *download.partial = None;
            let (Trouble::Lasting(what), Some(netrc)) = (&trouble, &self.netrc) else { return trouble };
            let (is_stranger, is_refused) =
                (status == StatusCode::UNAUTHORIZED, status == StatusCode::FORBIDDEN);
            let netrc = netrc.display();
            let hint = match why_none.clone() {
                _ if is_known && is_stranger => {
                    format!("the name or the password for {server} in {netrc}, where pilots run, is wrong")
                }
                _ if is_known && is_refused => {
                    format!("whom {netrc}, where pilots run, names for {server} may not have this file, or has another password")
                }
                Some(why) if is_stranger => why,
                None if is_stranger => format!("who may enter {answering} stands in {netrc} where pilots run"),
                _ => return trouble,
            };
            Trouble::Lasting(format!("{what}; {hint}"))
        })?;
        let n_expected = response.content_length().unwrap_or(0);
        match go_on(response, download, n_expected, patience).await {
            Err(Trouble::Silent { what, .. }) => Err(silent(&what)),
            other => {
                self.silences.forget(server);
                other
            }
        }
    }

    /// Returns the login for an address; none for an address that contains a login.
    fn login(&self, url: &str) -> Result<Option<netrc::Login>, String> {
        let url = Url::parse(url).ok().filter(|url| url.username().is_empty() && url.password().is_none());
        match url.as_ref().and_then(Url::host_str).zip(self.netrc.as_ref()) {
            Some((host, netrc)) => {
                netrc::login(netrc, host).inspect_err(|why| tracing::warn!(why, "no login"))
            }
            None => Ok(None),
        }
    }

    /// Uploads a file to the manager, unless the manager has it.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub async fn to_manager(
        &self,
        session: &str,
        job: Option<JobId>,
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
        let url = url + &query_of(job);
        let request = self.manager_up.put(url).bearer_auth(session).header(header::CONTENT_LENGTH, n_bytes);
        self.send_up(request, file, true).await
    }

    async fn send_up(&self, request: RequestBuilder, file: File, is_manager: bool) -> Result<(), Trouble> {
        let failed = |what: String| if is_manager { Trouble::Away(what) } else { Trouble::Brief(what) };
        let response = upload::send(request, file, self.upload_patience).await.map_err(failed)?;
        let answered = timeout(self.upload_patience, accepted(response, is_manager, Wanted::Taken)).await;
        answered.map_err(|_| failed("no answer in time".to_owned()))?.map(drop)
    }
}

/// Returns the query with the job of a file. A manager of an older version ignores it.
fn query_of(job: Option<JobId>) -> String {
    job.map_or_else(String::new, |job| format!("?job={job}"))
}

/// Returns the host of an address with its port, for messages.
fn server_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(|url| Some((url.host_str()?, url.port())));
    match host {
        Some((host, Some(port))) => format!("{host}:{port}"),
        Some((host, None)) => host.to_owned(),
        None => "the server".to_owned(),
    }
}

/// Returns whether a download has broken off and its rest is requested.
fn is_begun(partial: &Option<Partial>) -> bool {
    partial.as_ref().is_some_and(|partial| partial.n_bytes() > 0)
}

/// Adds the request for the rest of a broken download, on condition that the file is the same.
fn going_on(request: RequestBuilder, partial: Option<&Partial>) -> RequestBuilder {
    let Some(Partial { part, validator, .. }) = partial.filter(|partial| partial.n_bytes() > 0) else {
        return request;
    };
    let request = request.header(header::RANGE, format!("bytes={}-", part.n_bytes()));
    match validator {
        Some(validator) => request.header(header::IF_RANGE, validator),
        None => request,
    }
}

/// Reads a response as the rest of an earlier part, or from the beginning. A broken download is kept if its
/// rest can be verified to be of the same file.
async fn go_on(
    mut response: Response,
    download: Download<'_>,
    n_expected: u64,
    patience: Duration,
) -> Result<Part, Trouble> {
    let Download { cache, is_known, partial, progress } = download;
    let before = partial.take();
    let said = validator(response.headers());
    let rest = (response.status() == StatusCode::PARTIAL_CONTENT).then(|| content_range(response.headers()));
    let Partial { mut part, validator, n_total } = match (rest, before) {
        (Some(Some(range)), Some(before)) if before.goes_on_with(&range, said.as_ref()) => Partial {
            part: before.part,
            validator: before.validator.or(said),
            n_total: range.n_total.or(before.n_total),
        },
        // The earlier part is dropped: the next attempt begins again.
        (Some(_), _) => {
            return Err(Trouble::Brief("the server sends another part than it was asked for".to_owned()));
        }
        (None, _) => Partial {
            part: cache.begin(n_expected).map_err(Trouble::Disk)?,
            validator: said,
            n_total: response.content_length(),
        },
    };
    let mut pace = Pace::new(patience);
    let trouble = loop {
        match timeout(pace.left(), response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                pace.add(chunk.len() as u64);
                part.write(&chunk).map_err(Trouble::Disk)?;
                progress.inspect(|progress| progress.add(chunk.len() as u64));
                if part.n_bytes() > OBJECT_BYTES_MAX {
                    return Err(Trouble::Lasting("it has more than 1 TiB, which is the most".to_owned()));
                }
            }
            Ok(Ok(None)) => match n_total {
                Some(n_total) if part.n_bytes() < n_total => {
                    break Trouble::Brief(format!(
                        "the server has sent {} bytes of {n_total}",
                        part.n_bytes()
                    ));
                }
                Some(n_total) if part.n_bytes() > n_total => {
                    return Err(Trouble::Brief(format!(
                        "the server has sent more than the {n_total} bytes that it said"
                    )));
                }
                _ => return Ok(part),
            },
            Ok(Err(error)) => break Trouble::Brief(cause(&error)),
            Err(_) => break Trouble::Silent { server: String::new(), what: pace.words() },
        }
    };
    if is_known || validator.is_some() {
        *partial = Some(Partial { part, validator: validator.filter(|_| !is_known), n_total });
    }
    Err(trouble)
}

async fn stream(response: Response, download: Download<'_>, n_expected: u64) -> Result<Part, Trouble> {
    match go_on(response, download, n_expected, READ_TIMEOUT).await {
        Err(Trouble::Silent { what, .. }) => Err(Trouble::Brief(format!("the sender {what}"))),
        other => other,
    }
}
