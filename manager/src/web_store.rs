//! Servers of HTTP that ask who enters, as stores: what opens them stays with the manager, and files pass through it.

use std::{fmt, io, time::Duration};

use reqwest::{Body, Method, RequestBuilder, Response, StatusCode, Url, header};

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
    #[error(
        "store {store}: the server answers {status}; who may enter stands in `user` and `secret_file` of the store"
    )]
    Denied {
        /// The store.
        store: String,
        /// What the server says.
        status: StatusCode,
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
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .user_agent(USER_AGENT)
            .build()
            .map_err(|error| cause(&error))?;
        let base =
            Url::parse(endpoint).map_err(|error| format!("found an endpoint that is no address: {error}"))?;
        Ok(Web { store: store.to_owned(), client, base, user, secret })
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
        self.accepted(self.request(Method::GET, url).send().await)
    }

    /// Writes a file of so many bytes.
    ///
    /// # Errors
    /// See [`WebError`].
    pub async fn write(&self, url: Url, n_bytes: Option<u64>, body: Body) -> Result<(), WebError> {
        let mut request = self.request(Method::PUT, url).body(body);
        if let Some(n_bytes) = n_bytes {
            request = request.header(header::CONTENT_LENGTH, n_bytes);
        }
        self.accepted(request.send().await).map(drop)
    }

    fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.client.request(method, url);
        match (&self.user, &self.secret) {
            (Some(user), secret) => request.basic_auth(user, secret.as_ref()),
            (None, Some(token)) => request.bearer_auth(token),
            (None, None) => request,
        }
    }

    fn accepted(&self, response: reqwest::Result<Response>) -> Result<Response, WebError> {
        let store = self.store.clone();
        let response =
            response.map_err(|error| WebError::Broken { store: store.clone(), what: cause(&error) })?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status @ (StatusCode::NOT_FOUND | StatusCode::GONE) => Err(WebError::None { store, status }),
            status @ (StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS) => {
                Err(WebError::Broken { store, what: format!("the server answers {status}") })
            }
            status if status.is_client_error() => Err(WebError::Denied { store, status }),
            status => Err(WebError::Broken { store, what: format!("the server answers {status}") }),
        }
    }
}

/// What happened, without the address.
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
