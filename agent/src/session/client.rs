//! The HTTP client for the manager: one exchange at a time, typed errors; the caller retries.
//!
//! TLS accepts exactly the certificate whose fingerprint is in the join document, under any host name:
//! through a tunnel or a forwarded port the manager has another name.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use protocol::{
    codec::{CodecError, Format, MESSAGE_BYTES_MAX},
    net::address::is_loopback,
    peers::{HUNT_PATH, HuntAnswer, HuntRequest, PEERS_PATH, PeersAnswer, PeersRequest},
    pilot::{
        ErrorAnswer, LEAVE_PATH, LeaveAnswer, LeaveRequest, PULL_PATH, PullRequest, REGISTER_PATH,
        RegisterAnswer, RegisterRequest, TAILS_PATH, TailsAnswer, TailsRequest, VERSION,
    },
};
use reqwest::{StatusCode, header};
use scheduler::{pull::PullAnswer, time::Span};
use serde::{Serialize, de::DeserializeOwned};

use crate::sys::pin;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of an answer, in addition to the time that the manager may park the request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest answer without tasks.
const SMALL_BYTES_MAX: usize = 1 << 20;
/// The most bytes read of an error answer.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// The first wait before a retry; it doubles each time.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// The longest wait before a retry.
const BACKOFF_MAX: Duration = Duration::from_secs(20);

/// The reason why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The join document cannot be used.
    #[error("the join document's {field} is {found:?}: expected {expected}")]
    BadJoin {
        /// The field.
        field: &'static str,
        /// The value that was found.
        found: String,
        /// A description of valid values.
        expected: &'static str,
    },
    /// The HTTP client cannot be created.
    #[error("no HTTP client: {0}")]
    Setup(#[source] reqwest::Error),
    /// There is no connection, or it broke.
    #[error("the manager at {url} cannot be reached: {what}")]
    Unreachable {
        /// The manager's address.
        url: String,
        /// The error's innermost cause.
        what: String,
    },
    /// The manager shows another certificate than that of the join document.
    #[error("the manager at {url} is not the one of the join document: {what}")]
    WrongCertificate {
        /// The manager's address.
        url: String,
        /// The certificates that were found and expected.
        what: String,
    },
    /// The manager does not accept the token, or no longer.
    #[error("the manager at {url} does not accept our token: {message}")]
    Unauthorized {
        /// The manager's address.
        url: String,
        /// The manager's message.
        message: String,
    },
    /// The manager speaks another version of the protocol.
    #[error("the manager at {url} does not speak version {VERSION} of the pilot protocol: {message}")]
    WrongVersion {
        /// The manager's address.
        url: String,
        /// The manager's message.
        message: String,
    },
    /// The manager refuses the request.
    #[error("the manager at {url} refuses ({status}, {code}): {message}")]
    Refused {
        /// The manager's address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The error code, one word.
        code: String,
        /// The manager's message.
        message: String,
    },
    /// The answer cannot be decoded.
    #[error("the answer of {url} cannot be read: {source}")]
    Codec {
        /// The manager's address.
        url: String,
        /// The cause.
        #[source]
        source: CodecError,
    },
}

impl ClientError {
    /// Returns whether a retry cannot help.
    pub fn is_final(&self) -> bool {
        match self {
            ClientError::BadJoin { .. } | ClientError::Setup(_) => true,
            ClientError::Unauthorized { .. } | ClientError::WrongVersion { .. } => true,
            // 408, 425 and 429 ask for a retry; other 4xx codes are about the request.
            ClientError::Refused { status, .. } => {
                (400..500).contains(status) && ![408, 425, 429].contains(status)
            }
            ClientError::WrongCertificate { .. }
            | ClientError::Unreachable { .. }
            | ClientError::Codec { .. } => false,
        }
    }

    /// Returns whether a pilot that never had an answer need not retry. A certificate that was right before
    /// may be right again later; one that never was right will not be.
    pub fn is_final_at_first(&self) -> bool {
        self.is_final() || matches!(self, ClientError::WrongCertificate { .. })
    }

    /// Returns whether the contents were refused, not the sender or the time: a retry with the same contents
    /// is refused too.
    pub fn is_about_contents(&self) -> bool {
        matches!(self, ClientError::Refused { status: 400 | 413 | 422, .. })
    }
}

/// A client for one manager, shared by all exchanges.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    format: Format,
    answer_timeout: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.url)
    }
}

impl Client {
    /// Returns a client for the manager at `url` (scheme, host and port) with this certificate.
    ///
    /// # Errors
    /// The URL or the fingerprint is invalid, or an https URL has no fingerprint.
    pub fn new(url: &str, certificate_sha256: Option<&str>) -> Result<Client, ClientError> {
        let url = url.trim_end_matches('/').to_string();
        let builder = reqwest::Client::builder()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(Duration::from_secs(30))
            .redirect(reqwest::redirect::Policy::none());
        // The site's proxies are for other networks, not for this host.
        let builder = if is_loopback(&url) { builder.no_proxy() } else { builder };
        // The HTTP client needs a TLS configuration even if it is not used.
        let pin = address_pin(&url, certificate_sha256)?.unwrap_or([0; 32]);
        let builder = builder.tls_backend_preconfigured(pin::tls_config(pin));
        let http = builder.build().map_err(ClientError::Setup)?;
        // JSON bodies can be read on the network, for debugging.
        let is_json = std::env::var("PILOTFISH_WIRE").is_ok_and(|format| format == "json");
        let format = if is_json { Format::Json } else { Format::Postcard };
        Ok(Client { http, url, format, answer_timeout: ANSWER_TIMEOUT })
    }

    /// Registers the pilot.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn register(
        &self,
        token: &str,
        request: &RegisterRequest,
    ) -> Result<RegisterAnswer, ClientError> {
        self.exchange(REGISTER_PATH, token, request, Span::ZERO, SMALL_BYTES_MAX).await
    }

    /// Sends a report and asks for tasks.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn pull(&self, session: &str, request: &PullRequest) -> Result<PullAnswer, ClientError> {
        self.exchange(PULL_PATH, session, request, request.pull.wait, MESSAGE_BYTES_MAX).await
    }

    /// Tells the manager that the pilot leaves.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn leave(&self, session: &str, request: &LeaveRequest) -> Result<LeaveAnswer, ClientError> {
        self.exchange(LEAVE_PATH, session, request, Span::ZERO, SMALL_BYTES_MAX).await
    }

    /// Sends the output of running tasks.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn tails(&self, session: &str, request: &TailsRequest) -> Result<TailsAnswer, ClientError> {
        self.exchange(TAILS_PATH, session, request, Span::ZERO, SMALL_BYTES_MAX).await
    }

    /// Sends this pilot's list of objects, and asks for the other pilots of its platform.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn peers(&self, session: &str, request: &PeersRequest) -> Result<PeersAnswer, ClientError> {
        self.exchange(PEERS_PATH, session, request, Span::ZERO, SMALL_BYTES_MAX).await
    }

    /// Lets the manager ask one of the other pilots for tasks.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn hunt(&self, session: &str, request: &HuntRequest) -> Result<HuntAnswer, ClientError> {
        self.exchange(HUNT_PATH, session, request, Span::ZERO, SMALL_BYTES_MAX).await
    }

    async fn exchange<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        token: &str,
        question: &Q,
        wait: Span,
        bytes_max: usize,
    ) -> Result<A, ClientError> {
        let on_codec = |source| ClientError::Codec { url: self.url.clone(), source };
        let body = self.format.encode(question).map_err(on_codec)?;
        let request = self
            .http
            .post(format!("{}{path}", self.url))
            .bearer_auth(token)
            .header(header::CONTENT_TYPE, self.format.content_type())
            .header(header::ACCEPT, self.format.content_type())
            .timeout(self.answer_timeout.saturating_add(Duration::from_micros(wait.0)))
            .body(body);
        let mut response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let format = Format::of_content_type(content_type);
        let most = if status.is_success() { bytes_max } else { REFUSAL_BYTES_MAX };
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            let found = bytes.len() + chunk.len();
            if found > most && status.is_success() {
                return Err(on_codec(CodecError::TooLong { found, most }));
            }
            bytes.extend_from_slice(&chunk[..chunk.len().min(most - bytes.len())]);
            if bytes.len() == most && !status.is_success() {
                break;
            }
        }
        if status.is_success() {
            return format.decode(&bytes).map_err(on_codec);
        }
        Err(self.refusal(status, &bytes))
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        // The outermost text repeats the URL; the cause is more useful.
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        if let Some(what) = pin::mismatch(error) {
            return ClientError::WrongCertificate { url: self.url.clone(), what };
        }
        let what = if error.is_timeout() { "no answer in time".into() } else { cause.to_string() };
        ClientError::Unreachable { url: self.url.clone(), what }
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> ClientError {
        let url = self.url.clone();
        let (code, message) = match serde_json::from_slice::<ErrorAnswer>(body) {
            Ok(answer) => (answer.error.code, answer.error.message),
            Err(_) => {
                let start: String = String::from_utf8_lossy(body).chars().take(200).collect();
                ("no-code".to_string(), if start.is_empty() { "no reason given".to_string() } else { start })
            }
        };
        match (status, code.as_str()) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                ClientError::Unauthorized { url, message }
            }
            (StatusCode::UPGRADE_REQUIRED, _) | (_, "wrong-version") => {
                ClientError::WrongVersion { url, message }
            }
            _ => ClientError::Refused { url, status: status.as_u16(), code, message },
        }
    }
}

/// Returns the fingerprint that the manager must have, from a join document's address; `None` without TLS.
///
/// # Errors
/// The URL or the fingerprint is invalid, or an https URL has no fingerprint.
pub fn address_pin(url: &str, certificate_sha256: Option<&str>) -> Result<Option<[u8; 32]>, ClientError> {
    let bad = |field, found: &str, expected| ClientError::BadJoin { field, found: found.into(), expected };
    let (scheme, host) = url.split_once("://").unwrap_or_default();
    match (scheme, certificate_sha256) {
        _ if host.is_empty() => Err(bad("url", url, "http://HOST:PORT or https://HOST:PORT")),
        ("https", Some(hex)) => match pin::fingerprint(hex) {
            Some(pin) => Ok(Some(pin)),
            None => Err(bad("certificate_sha256", hex, "64 hexadecimal digits")),
        },
        ("https", None) => {
            Err(bad("certificate_sha256", "absent", "the fingerprint of the manager's certificate"))
        }
        ("http", _) => Ok(None),
        _ => Err(bad("url", url, "http://HOST:PORT or https://HOST:PORT")),
    }
}

/// Returns the wait after `n_failed` failures: it doubles, with jitter so that pilots do not retry all at
/// once.
pub fn backoff(n_failed: u32) -> Duration {
    let full = BACKOFF_FIRST.saturating_mul(1 << n_failed.saturating_sub(1).min(16)).min(BACKOFF_MAX);
    full.mul_f64(0.5 + 0.5 * (random() % 1024) as f64 / 1024.0)
}

/// Returns a number that differs between calls and processes; not for secrets.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
