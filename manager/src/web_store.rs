//! Servers of HTTP that ask who enters, as stores: what opens them stays with the manager, and files pass through it.

use std::{
    fmt, io,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use reqwest::{Body, Method, RequestBuilder, Response, StatusCode, Url, header, redirect::Policy};
use tokio::time::timeout;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Whoever sends nothing for so long sends no more.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Who we are there.
const USER_AGENT: &str = concat!("pilotfish/", env!("CARGO_PKG_VERSION"));

/// One of them.
pub struct Web {
    store: String,
    client: reqwest::Client,
    /// The same for files that are written, which take as long as they come here.
    client_up: reqwest::Client,
    base: Url,
    user: Option<String>,
    secret: Option<String>,
}

/// Why a file did not come or go.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// There is none.
    #[error("store {store}: the server answers {status}: there is no such file")]
    None {
        /// The store.
        store: String,
        /// What the server says.
        status: StatusCode,
    },
    /// Who asks may not, or is not known.
    #[error("store {store}: the server answers {status}; {}", denied(*is_known))]
    Denied {
        /// The store.
        store: String,
        /// What the server says.
        status: StatusCode,
        /// Whether a name or a secret was sent.
        is_known: bool,
    },
    /// The server refuses it, and will do so again.
    #[error("store {store}: {what}")]
    Refused {
        /// The store.
        store: String,
        /// What happened.
        what: String,
    },
    /// It is broken, or does not answer.
    #[error("store {store}: {what}")]
    Broken {
        /// The store.
        store: String,
        /// What happened.
        what: String,
    },
}

fn denied(is_known: bool) -> &'static str {
    match is_known {
        true => "`user` and `secret_file` of the store are wrong, or may not do that",
        false => "the store has no `user` and no `secret_file`, and needs them",
    }
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Web {
    /// The server at an address; its secret is the user's password, or a token if there is no user.
    ///
    /// # Errors
    /// The address is none, or this host has no authorities to trust.
    pub fn new(
        store: &str,
        endpoint: &str,
        user: Option<String>,
        secret: Option<String>,
    ) -> Result<Web, String> {
        // Another one that was chosen before does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            let builder = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT);
            builder.redirect(redirections()).user_agent(USER_AGENT)
        };
        let client = builder().read_timeout(READ_TIMEOUT).build().map_err(|error| cause(&error))?;
        let client_up = builder().build().map_err(|error| cause(&error))?;
        let base =
            Url::parse(endpoint).map_err(|error| format!("found an endpoint that is no address: {error}"))?;
        Ok(Web { store: store.to_owned(), client, client_up, base, user, secret })
    }

    /// Where a file is.
    pub fn address(&self, folder: &str, path: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments
                .pop_if_empty()
                .extend(folder.split('/').chain(path.split('/')).filter(|part| !part.is_empty()));
        }
        url
    }

    /// Begins to read a file.
    ///
    /// # Errors
    /// See [`WebError`].
    pub async fn read(&self, url: Url) -> Result<Response, WebError> {
        self.accepted(self.request(&self.client, Method::GET, url).send().await)
    }

    /// Writes a file of so many bytes. `n_taken` counts how much of it the server has taken: one that stops to take it is
    /// given up.
    ///
    /// # Errors
    /// See [`WebError`].
    pub async fn write(
        &self,
        url: Url,
        n_bytes: Option<u64>,
        body: Body,
        n_taken: &AtomicU64,
    ) -> Result<(), WebError> {
        let mut request = self.request(&self.client_up, Method::PUT, url).body(body);
        if let Some(n_bytes) = n_bytes {
            request = request.header(header::CONTENT_LENGTH, n_bytes);
        }
        let mut response = pin!(request.send());
        let mut n_before = 0;
        loop {
            if let Ok(response) = timeout(READ_TIMEOUT, response.as_mut()).await {
                return self.accepted(response).map(drop);
            }
            let n = n_taken.load(Ordering::Relaxed);
            if n == n_before {
                let what = format!("the server has taken nothing for {} s", READ_TIMEOUT.as_secs());
                return Err(WebError::Broken { store: self.store.clone(), what });
            }
            n_before = n;
        }
    }

    fn request(&self, client: &reqwest::Client, method: Method, url: Url) -> RequestBuilder {
        let request = client.request(method, url);
        match (&self.user, &self.secret) {
            (Some(user), secret) => request.basic_auth(user, secret.as_ref()),
            (None, Some(token)) => request.bearer_auth(token),
            (None, None) => request,
        }
    }

    fn accepted(&self, response: reqwest::Result<Response>) -> Result<Response, WebError> {
        let store = self.store.clone();
        let response = response.map_err(|error| {
            let (store, what) = (store.clone(), cause(&error));
            match error.is_redirect() || error.is_builder() {
                true => WebError::Refused { store, what },
                false => WebError::Broken { store, what },
            }
        })?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status @ (StatusCode::NOT_FOUND | StatusCode::GONE) => Err(WebError::None { store, status }),
            status @ (StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS) => {
                Err(WebError::Broken { store, what: format!("the server answers {status}") })
            }
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Err(WebError::Denied {
                store,
                status,
                is_known: self.user.is_some() || self.secret.is_some(),
            }),
            status if status.is_client_error() => {
                Err(WebError::Refused { store, what: format!("the server answers {status}") })
            }
            status => Err(WebError::Broken { store, what: format!("the server answers {status}") }),
        }
    }
}

/// What happened, without the address.
fn cause(error: &reqwest::Error) -> String {
    protocol::cause::cause(error, error.is_timeout())
}

/// Follows redirections to servers of HTTP.
fn redirections() -> Policy {
    Policy::custom(|attempt| {
        match protocol::address::redirection(attempt.url().scheme(), attempt.previous().len()) {
            Ok(()) => attempt.follow(),
            Err(what) => attempt.error(what),
        }
    })
}

/// The same of a file that breaks off.
pub fn broken_off(error: &reqwest::Error) -> io::Error {
    io::Error::other(cause(error))
}

#[cfg(test)]
mod tests {
    use super::Web;

    #[test]
    fn names_of_files_are_parts_of_the_address_and_secrets_are_not_shown() {
        let web = Web::new("a", "https://h:9/sets/", Some("ann".into()), Some("hush".into())).unwrap();
        let at = |folder: &str, path: &str| web.address(folder, path).to_string();
        assert_eq!(at("", "x.bin"), "https://h:9/sets/x.bin");
        assert_eq!(at("f/g", "a b/ö?#%.txt"), "https://h:9/sets/f/g/a%20b/%C3%B6%3F%23%25.txt");
        assert!(!format!("{web:?}").contains("hush"));
        assert!(Web::new("a", "https://", None, None).unwrap_err().contains("no address"));
    }
}
