//! Servers of HTTP that ask who enters, as stores: what opens them stays with the manager, and files pass through it.

use std::{
    fmt, io,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use protocol::{
    files::objects::StoreAccess,
    net::answers::{is_no_file, is_not_taken},
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
        // To follow a redirection would be to ask for a page instead of writing a file.
        let client_up = builder().redirect(Policy::none()).build().map_err(|error| cause(&error))?;
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
        let response = self.request(&self.client, Method::GET, url).send().await;
        self.accepted(response, StoreAccess::Read)
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
                return self.accepted(response, StoreAccess::Write).map(drop);
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

    /// The response, if it is the file, or says that the server has taken one.
    fn accepted(&self, response: reqwest::Result<Response>, way: StoreAccess) -> Result<Response, WebError> {
        let wrong = |status: StatusCode| match way {
            StoreAccess::Read => is_no_file(status.as_u16(), false),
            StoreAccess::Write => is_not_taken(status.as_u16()),
        };
        let store = self.store.clone();
        let response = response.map_err(|error| {
            let (store, what) = (store.clone(), cause(&error));
            match error.is_redirect() || error.is_builder() {
                true => WebError::Refused { store, what },
                false => WebError::Broken { store, what },
            }
        })?;
        match response.status() {
            status if status.is_success() || status.is_redirection() => match wrong(status) {
                None => Ok(response),
                Some(wrong) => {
                    let what = format!("the server answers {status}{}: {wrong}", location(&response));
                    // What is asked for may be there the next time.
                    Err(match status == StatusCode::ACCEPTED && way == StoreAccess::Read {
                        true => WebError::Broken { store, what },
                        false => WebError::Refused { store, what },
                    })
                }
            },
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

/// Where a redirection leads, for people.
fn location(response: &Response) -> String {
    let to = response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection());
    let to = to.and_then(|to| to.to_str().ok()).map(protocol::net::address::shown);
    to.map(|to| format!(", which sends on to {to}")).unwrap_or_default()
}

/// What happened, without the address.
fn cause(error: &reqwest::Error) -> String {
    protocol::net::cause::cause(error, error.is_timeout())
}

/// Follows redirections to servers of HTTP.
fn redirections() -> Policy {
    Policy::custom(|attempt| {
        match protocol::net::address::redirection(attempt.url().scheme(), attempt.previous().len()) {
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
    use std::{
        io::{BufRead, BufReader, Read, Write},
        net::TcpListener,
        sync::{Arc, Mutex, atomic::AtomicU64},
        thread,
    };

    use super::{Web, WebError};

    /// A server that gives the same answer to all, with this status, and what it was asked for.
    fn server(status: &'static str) -> (Web, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/sets", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let its = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let (mut line, mut n_bytes, mut first) = (String::new(), 0, None);
                while reader.read_line(&mut line).unwrap() > 2 {
                    if let Some(length) = line.to_lowercase().strip_prefix("content-length:") {
                        n_bytes = length.trim().parse().unwrap();
                    }
                    first.get_or_insert(line.clone());
                    line.clear();
                }
                reader.read_exact(&mut vec![0; n_bytes]).unwrap();
                its.lock().unwrap().push(first.unwrap_or_default().trim().to_owned());
                let is_login = its.lock().unwrap().last().is_some_and(|line| line.contains("/login"));
                let status = if is_login { "200 OK" } else { status };
                let body =
                    if status.starts_with("20") && !status.starts_with("204") { "login\n" } else { "" };
                let length = body.len();
                let headers = format!("location: /login\r\ncontent-length: {length}\r\nconnection: close");
                let answer = format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n{body}");
                reader.into_inner().write_all(answer.as_bytes()).unwrap();
            }
        });
        (Web::new("lab", &url, None, None).unwrap(), asked)
    }

    async fn written(web: &Web) -> Result<(), WebError> {
        web.write(web.address("", "out"), Some(4), "data".into(), &AtomicU64::new(0)).await
    }

    #[tokio::test]
    async fn a_file_is_written_only_where_the_server_says_that_it_has_it() {
        for status in ["200 OK", "201 Created", "204 No Content"] {
            assert_eq!(written(&server(status).0).await, Ok(()), "{status}");
        }
        for (status, words) in [
            ("301 Moved Permanently", ", which sends on to /login: a file is only sent to the address"),
            ("302 Found", ", which sends on to /login: a file is only sent to the address that takes it"),
            ("303 See Other", ", which sends on to /login: a file is only sent to the address that takes it"),
            ("307 Temporary Redirect", ", which sends on to /login: a file is only sent to the address"),
            ("202 Accepted", ": the server has the file only if it answers 200, 201 or 204"),
            ("207 Multi-Status", ": the server has the file only if it answers 200, 201 or 204"),
        ] {
            let (web, asked) = server(status);
            let why = written(&web).await.unwrap_err();
            assert!(matches!(why, WebError::Refused { .. }), "{why:?}");
            let why = why.to_string();
            assert!(why.starts_with(&format!("store lab: the server answers {status}{words}")), "{why}");
            assert_eq!(*asked.lock().unwrap(), ["PUT /sets/out HTTP/1.1"], "{status}");
        }
    }

    #[tokio::test]
    async fn only_an_answer_that_holds_the_file_is_read() {
        let read = async |status| {
            let (web, _) = server(status);
            web.read(web.address("", "in")).await.map(drop).map_err(|error| error.to_string())
        };
        // A redirection is followed.
        for status in ["200 OK", "303 See Other"] {
            assert_eq!(read(status).await, Ok(()), "{status}");
        }
        for (status, words) in [
            ("202 Accepted", "the file is not there yet"),
            ("203 Non Authoritative Information", "no file; one comes with 200"),
            ("204 No Content", "no file; one comes with 200"),
            ("206 Partial Content", "a part of the file, which nobody asked for"),
        ] {
            let expected = format!("store lab: the server answers {status}: {words}");
            assert_eq!(read(status).await, Err(expected));
        }
    }

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
