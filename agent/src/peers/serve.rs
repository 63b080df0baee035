//! Serves other pilots: objects of the cache and tasks, over TLS with this pilot's own certificate. They know
//! the certificate from the manager and show the platform's token.

use std::{
    convert::Infallible,
    fs::File,
    io::{self, Read},
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::TryStreamExt;
use http_body_util::{BodyExt, Empty, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Frame, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::peers::{PEER_LOAD_PATH, PEER_OBJECTS_PATH, PEER_STEAL_PATH};
use reqwest::Url;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use scheduler::{digest::Digest, ids::PilotId};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{Asks, Directory, patience::Patient};
use crate::{staging::cache::Cache, sys::sha256};

/// The most objects sent at a time; other pilots look elsewhere.
const N_TRANSFERS: usize = 4;
/// The most connections at a time.
const N_CONNECTIONS: usize = 256;
/// Time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time limit of a request's header, also between requests.
const HEADER: Duration = Duration::from_secs(120);
/// Time limit of the pilot loop's answer, and of a short body.
const ANSWER: Duration = Duration::from_secs(1);
/// Time after which a peer that reads nothing is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest text of a pilot's id.
const WORD_BYTES_MAX: usize = 32;
/// Size of the pieces of a file.
const PIECE_BYTES: usize = 128 << 10;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A socket for other pilots, and its certificate.
pub struct Endpoint {
    listener: std::net::TcpListener,
    acceptor: TlsAcceptor,
    url: String,
    certificate_sha256: Digest,
}

impl Endpoint {
    /// Listens on a free port of the address by which this host reaches the manager.
    ///
    /// # Errors
    /// There is no such address or no port, or no certificate can be created.
    pub fn open(manager_url: &str) -> io::Result<Endpoint> {
        let listener = std::net::TcpListener::bind((own_address(manager_url)?, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!("https://{}", listener.local_addr()?);
        let made = rcgen::generate_simple_self_signed(vec!["pilotfish".into()]).map_err(io::Error::other)?;
        let certificate = made.cert.der().clone();
        let certificate_sha256 = sha256::of(&certificate);
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|config| config.with_no_client_auth().with_single_cert(vec![certificate], key))
                .map_err(io::Error::other)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Endpoint { listener, acceptor, url, certificate_sha256 })
    }

    /// Returns its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the digest of its certificate.
    pub fn certificate_sha256(&self) -> Digest {
        self.certificate_sha256
    }

    /// Serves other pilots for ever.
    pub(super) async fn serve(self, directory: Arc<Directory>, cache: Arc<Cache>, asks: Asks) {
        let listener = match TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, "other pilots cannot fetch files here");
                return std::future::pending().await;
            }
        };
        let host = Arc::new(Serving::new(directory, cache, asks));
        let connections = Arc::new(Semaphore::new(N_CONNECTIONS));
        loop {
            // The semaphore is never closed.
            let Ok(place) = Arc::clone(&connections).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (host, acceptor) = (Arc::clone(&host), self.acceptor.clone());
                    tokio::spawn(async move {
                        connection(stream, acceptor, host).await;
                        drop(place);
                    });
                }
                // Too many files are open; connections that end make room.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, host: Arc<Serving>) {
    // Without this option answers come a little later.
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream, PATIENCE);
    let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    host.converse(stream).await;
}

/// Returns the address by which this host reaches the manager.
fn own_address(manager_url: &str) -> io::Result<IpAddr> {
    let no_address = || io::Error::other(format!("{manager_url} has no address"));
    // Without a port in the URL the scheme's port counts.
    let url = Url::parse(manager_url).map_err(io::Error::other)?;
    let manager = url.socket_addrs(|| None)?.into_iter().next().ok_or_else(no_address)?;
    let any: SocketAddr = match manager {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    // Nothing is sent: connecting a UDP socket only selects the route.
    let socket = UdpSocket::bind(any)?;
    socket.connect(manager)?;
    Ok(socket.local_addr()?.ip())
}

/// The server's side of a connection.
pub struct Serving {
    directory: Arc<Directory>,
    cache: Arc<Cache>,
    asks: Asks,
    transfers: Arc<Semaphore>,
}

impl Serving {
    /// Returns a server of the objects in `cache`; requests for tasks go to `asks`.
    pub fn new(directory: Arc<Directory>, cache: Arc<Cache>, asks: Asks) -> Serving {
        Serving { directory, cache, asks, transfers: Arc::new(Semaphore::new(N_TRANSFERS)) }
    }

    /// Answers the requests of a connection until it ends.
    pub async fn converse(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(move |request| {
            let host = Arc::clone(&self);
            async move { Ok::<_, Infallible>(host.answer(request).await) }
        });
        let mut builder = http1::Builder::new();
        // A peer that has sent all still gets the answer. A peer that is gone shows by failed writes.
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER).half_close(true);
        if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "a connection of another pilot broke");
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let shown = shown.and_then(|value| value.strip_prefix("Bearer "));
        if !shown.is_some_and(|token| self.directory.knows_token(token)) {
            return bare(StatusCode::UNAUTHORIZED);
        }
        let path = request.uri().path();
        let object = path.strip_prefix(PEER_OBJECTS_PATH).and_then(|rest| rest.strip_prefix('/'));
        match (request.method(), object.and_then(|sha256| sha256.parse::<Digest>().ok())) {
            (&Method::GET, Some(sha256)) => self.object(sha256).await,
            (&Method::GET, None) if path == PEER_LOAD_PATH => {
                text(self.directory.n_to_take.load(Ordering::Relaxed))
            }
            (&Method::POST, None) if path == PEER_STEAL_PATH => self.steal(request.into_body()).await,
            _ => bare(StatusCode::NOT_FOUND),
        }
    }

    /// Answers a request for tasks; the pilot's loop decides on their number.
    async fn steal(self: Arc<Self>, body: Incoming) -> Response<Body> {
        let body = timeout(ANSWER, Limited::new(body, WORD_BYTES_MAX).collect()).await;
        let word = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
        let word = word.as_deref().and_then(|word| std::str::from_utf8(word).ok());
        let Some(thief) = word.and_then(|word| word.trim().parse().ok()).map(PilotId) else {
            return bare(StatusCode::BAD_REQUEST);
        };
        let (answer, answered) = oneshot::channel();
        (self.asks)(thief, answer);
        match timeout(ANSWER, answered).await {
            Ok(Ok(n_tasks)) => text(n_tasks),
            _ => bare(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    /// Sends an object of the cache. While enough other pilots are served, the peer is to look elsewhere.
    async fn object(self: Arc<Self>, sha256: Digest) -> Response<Body> {
        let Ok(place) = Arc::clone(&self.transfers).try_acquire_owned() else {
            return bare(StatusCode::SERVICE_UNAVAILABLE);
        };
        let serving = Arc::clone(&self);
        let opened = tokio::task::spawn_blocking(move || serving.open(&sha256, place)).await;
        match opened.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(Some((giving, n_bytes))) => {
                let pieces = futures_util::stream::try_unfold(giving, next_piece).map_ok(Frame::data);
                let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
                response.headers_mut().insert(header::CONTENT_LENGTH, n_bytes.into());
                response
            }
            Ok(None) => {
                self.directory.lost(&sha256);
                bare(StatusCode::NOT_FOUND)
            }
            Err(error) => {
                tracing::warn!(%error, %sha256, "a file cannot be given to another pilot");
                bare(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    fn open(
        self: &Arc<Self>,
        sha256: &Digest,
        place: OwnedSemaphorePermit,
    ) -> io::Result<Option<(Giving, u64)>> {
        let Some(pin) = self.cache.pin(sha256)? else { return Ok(None) };
        let pinned = Pinned(Arc::clone(&self.cache), *sha256);
        let file = File::open(&pin.path)?;
        let n_bytes = file.metadata()?.len();
        Ok(Some((Giving { file, _pinned: pinned, _place: place }, n_bytes)))
    }
}

/// A file that is being sent to another pilot.
struct Giving {
    file: File,
    _pinned: Pinned,
    _place: OwnedSemaphorePermit,
}

struct Pinned(Arc<Cache>, Digest);

impl Drop for Pinned {
    fn drop(&mut self) {
        self.0.unpin(&self.1);
    }
}

async fn next_piece(giving: Giving) -> io::Result<Option<(Bytes, Giving)>> {
    let read = tokio::task::spawn_blocking(move || {
        let mut giving = giving;
        let mut piece = vec![0; PIECE_BYTES];
        let n = giving.file.read(&mut piece)?;
        piece.truncate(n);
        Ok((n > 0).then(|| (Bytes::from(piece), giving)))
    });
    read.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn text(number: u64) -> Response<Body> {
    let body = Full::new(Bytes::from(number.to_string()));
    Response::new(body.map_err(|never: Infallible| match never {}).boxed_unsync())
}

fn bare(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::own_address;

    #[test]
    fn the_way_to_the_manager_is_found_with_and_without_a_port() {
        for url in ["http://127.0.0.1:8440", "https://127.0.0.1", "http://127.0.0.1/"] {
            assert_eq!(own_address(url).unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST), "{url}");
        }
        assert!(own_address("127.0.0.1").is_err());
    }
}
