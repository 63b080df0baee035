//! Runs commands on a host reached by SSH, over one connection that is kept and made again when it is lost.

mod address;
mod asker;
mod exec;
mod key_file;
mod known_hosts;
mod line;
mod login;
mod pipe;
mod route;
mod sftp;
mod tokens;
mod wire;

use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Stdio,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use nix::sys::socket::{setsockopt, sockopt::TcpUserTimeout};
use tokio::sync::{Mutex, oneshot};

pub use asker::{Asker, Nobody, Prompt};
use line::{Answer, Broken, Line, Order};
use route::Hop;
pub use sftp::{Sftp, SftpError};
use wire::Wire;

use super::{Transport, TransportError};
use crate::{
    command::{Command, Output},
    script::quoted,
};

/// For so long a host may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// For so long a host may leave unconfirmed what was sent.
const SILENCE_MAX_MS: u32 = 90_000;

/// The one that may be on its way out, and two that end before they are asked for anything.
const N_CONNECTIONS_TRIED: usize = 3;

/// Printed before what a command says: what a login prints before that is not the command's.
const MARK: &str = "--pilotfish--";

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshError {
    /// Nobody knows where it leads.
    #[error("found no way to {address}: {why}")]
    Unresolved {
        /// As it was written.
        address: String,
        /// Why.
        why: String,
    },
    /// The host, or what is before it, did not answer.
    #[error("failed to connect to {host} port {port}: {why}")]
    NotConnected {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// Why.
        why: String,
    },
    /// Nobody knows this host.
    #[error(
        "no known_hosts file has the key of {host} port {port}, {fingerprint}; compare it with what the site \
         publishes, then log in once by hand: ssh -p {port} {host}"
    )]
    UnknownHostKey {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The key that it showed.
        fingerprint: String,
    },
    /// It is another host, or has a new key.
    #[error(
        "the key of {host} port {port} is not the one in known_hosts: it showed {fingerprint}; somebody may be in \
         between. If the site has published a new key: ssh-keygen -R '[{host}]:{port}', then log in once by hand"
    )]
    WrongHostKey {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The key that it showed.
        fingerprint: String,
    },
    /// Somebody has said that this key is not to be trusted any more.
    #[error(
        "the key of {host} port {port}, {fingerprint}, is revoked in known_hosts; ask the site for its new key"
    )]
    RevokedHostKey {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The key that it showed.
        fingerprint: String,
    },
    /// The host asks for something that only a person can give.
    #[error("{host} does not let {user} in without a person; tried: {why}")]
    NeedsPerson {
        /// The host.
        host: String,
        /// As whom.
        user: String,
        /// By what, and why it failed.
        why: String,
    },
    /// The host does not take us.
    #[error("{host} does not let {user} in; tried: {tried}")]
    Refused {
        /// The host.
        host: String,
        /// As whom.
        user: String,
        /// By what, and why it failed.
        tried: String,
    },
    /// They do not understand each other.
    #[error("failed to talk with {host}: {what}")]
    Broken {
        /// The host.
        host: String,
        /// Why.
        what: String,
    },
}

/// A host reached by SSH.
pub struct Ssh {
    /// `[user@]host[:port]`, where the host may be a word of the configuration.
    address: String,
    /// Instead of `~/.ssh/config`.
    config: Option<String>,
    asker: Arc<dyn Asker>,
    connection: Mutex<Connection>,
}

/// The connection, if there is one, and its number: another one has another.
#[derive(Default)]
struct Connection {
    line: Option<Line>,
    number: u64,
}

impl Ssh {
    /// A host that is connected to once something is to be run.
    pub fn new(address: String, config: Option<String>, asker: Arc<dyn Asker>) -> Ssh {
        Ssh { address, config, asker, connection: Mutex::default() }
    }

    /// Sees to it that there is a connection; gives its number: another one has another.
    ///
    /// # Errors
    /// There can be none.
    pub async fn connect(&self) -> Result<u64, TransportError> {
        let mut connection = self.connection.lock().await;
        if connection.line.as_ref().is_none_or(Line::has_ended) {
            self.open(&mut connection).await?;
        }
        Ok(connection.number)
    }

    /// Listens on the host's loopback address, and connects who comes there with `to` here; gives the port.
    /// That ends with the connection: ask again when it is another.
    ///
    /// # Errors
    /// There is no connection, or the host does not allow it.
    pub async fn forward(&self, to: SocketAddr) -> Result<u16, TransportError> {
        self.ask(Duration::ZERO, |answer| Order::Forward { to, answer }).await
    }

    /// What an order comes to. One that a connection on its way out has not taken is given to the next.
    async fn ask<T>(&self, limit: Duration, order: impl Fn(Answer<T>) -> Order) -> Result<T, TransportError> {
        for _ in 0..N_CONNECTIONS_TRIED {
            let (answer, answered) = oneshot::channel();
            self.order(order(answer)).await?;
            // Nobody took it, or there would be an answer.
            let Ok(result) = answered.await else { continue };
            let program = self.address.clone();
            return result.map_err(|broken| match broken {
                Broken::Denied(why) => {
                    TransportError::NotStarted { program, source: std::io::Error::other(why) }
                }
                Broken::TimedOut => TransportError::TimedOut { program, limit },
                Broken::TooMuch => TransportError::TooMuch { program },
                Broken::Lost(why) => TransportError::Broken { program, source: std::io::Error::other(why) },
            });
        }
        Err(TransportError::NotConnected(self.ended_at_once()))
    }

    fn ended_at_once(&self) -> SshError {
        SshError::Broken { host: self.address.clone(), what: "the connection ended at once".to_owned() }
    }

    /// Gives an order to the connection, a new one if the last was lost.
    async fn order(&self, mut order: Order) -> Result<(), TransportError> {
        let mut connection = self.connection.lock().await;
        if let Some(line) = &connection.line {
            match line.give(order) {
                Ok(()) => return Ok(()),
                Err(back) => order = back,
            }
        }
        let line = self.open(&mut connection).await?;
        line.give(order).map_err(|_| TransportError::NotConnected(self.ended_at_once()))
    }

    async fn open<'c>(&self, connection: &'c mut Connection) -> Result<&'c Line, TransportError> {
        connection.line = None;
        let (address, config, asker) = (self.address.clone(), self.config.clone(), self.asker.clone());
        let opened = tokio::task::spawn_blocking(move || open(&address, config.as_deref(), &*asker)).await;
        let broken = |what: String| SshError::Broken { host: self.address.clone(), what };
        let line = opened.unwrap_or_else(|error| Err(broken(error.to_string())))?;
        connection.number += 1;
        Ok(connection.line.insert(line))
    }
}

#[async_trait]
impl Transport for Ssh {
    async fn run(&self, command: &Command) -> Result<Output, TransportError> {
        let until = Instant::now() + command.time_limit;
        let order = |answer| {
            let (line, stdin) = (shell_line(command), command.stdin.clone());
            Order::Run { line, stdin, until, answer }
        };
        let output = self.ask(command.time_limit, order).await?;
        Ok(Output { stdout: after_mark(output.stdout), stderr: after_mark(output.stderr), ..output })
    }
}

/// The command for a login shell of any kind: it sees one line of words in single quotes, of which those of the
/// command are in a form that none changes, as csh does with `!` and line ends. It ends by itself soon after its
/// limit, so that none is left there that hangs.
fn shell_line(command: &Command) -> String {
    let limit_s = command.time_limit.as_secs() + 2;
    let begin = format!(
        "eval \"set -- $(printf %b \"$1\")\"; echo {MARK}; echo {MARK} >&2; \
         command -v timeout >/dev/null && exec timeout -k 5 {limit_s} \"$@\"; exec \"$@\""
    );
    let words = command.argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    format!("exec /bin/sh -c {} sh {}", quoted(&begin), quoted(&in_octal(&words)))
}

/// As `printf %b` takes it, with no character but those that every shell leaves alone in single quotes.
fn in_octal(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" -_./=:,+@".contains(&byte);
    let shown =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("\\0{byte:03o}") };
    text.bytes().map(shown).collect()
}

fn after_mark(text: String) -> String {
    match text.split_once(&format!("{MARK}\n")) {
        Some((_, rest)) => rest.to_owned(),
        None => text,
    }
}

/// Goes the whole way to an address.
fn open(address: &str, config: Option<&str>, asker: &dyn Asker) -> Result<Line, SshError> {
    let (wire, before) = log_in(address, config, asker)?;
    let broken =
        |error: std::io::Error| SshError::Broken { host: address.to_owned(), what: error.to_string() };
    Line::start(wire, before).map_err(broken)
}

/// A session at an address, and the connection that carries it.
fn log_in(address: &str, config: Option<&str>, asker: &dyn Asker) -> Result<(Wire, Option<Line>), SshError> {
    let mut line: Option<Line> = None;
    let mut hops = route::route(address, config)?.into_iter().peekable();
    while let Some(hop) = hops.next() {
        let socket = match &line {
            None => first_socket(&hop)?,
            Some(line) => next_socket(line, &hop)?,
        };
        let wire = login::log_in(socket, &hop, asker)?;
        if hops.peek().is_none() {
            return Ok((wire, line));
        }
        let started = Line::start(wire, line);
        line = Some(started.map_err(|error| SshError::Broken { host: hop.host, what: error.to_string() })?);
    }
    Err(SshError::Unresolved { address: address.to_owned(), why: "it names no host".into() })
}

fn not_connected(hop: &Hop, why: impl ToString) -> SshError {
    SshError::NotConnected { host: hop.host.clone(), port: hop.port, why: why.to_string() }
}

fn first_socket(hop: &Hop) -> Result<OwnedFd, SshError> {
    if let Some(command) = &hop.proxy_command {
        return proxy_socket(hop, command);
    }
    let addresses =
        (hop.host.as_str(), hop.port).to_socket_addrs().map_err(|error| not_connected(hop, error))?;
    let mut why = "it has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(|error| not_connected(hop, error))?;
                setsockopt(&stream, TcpUserTimeout, &SILENCE_MAX_MS)
                    .map_err(|error| not_connected(hop, error))?;
                return Ok(stream.into());
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(not_connected(hop, why))
}

/// The standard input and output of a process that ends when they do.
fn proxy_socket(hop: &Hop, command: &str) -> Result<OwnedFd, SshError> {
    let failed = |error: std::io::Error| not_connected(hop, error);
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let theirs_too = theirs.try_clone().map_err(failed)?;
    let mut child = std::process::Command::new("/bin/sh")
        .args(["-c", &format!("exec {command}")])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(OwnedFd::from(theirs_too)))
        .spawn()
        .map_err(failed)?;
    std::thread::spawn(move || child.wait());
    Ok(ours.into())
}

fn next_socket(line: &Line, hop: &Hop) -> Result<OwnedFd, SshError> {
    let (answer, answered) = mpsc::channel();
    let order = Order::Connect { host: hop.host.clone(), port: hop.port, answer };
    let lost = || not_connected(hop, "the connection to the host before it ended");
    line.give(order).map_err(|_| lost())?;
    match answered.recv().map_err(|_| lost())? {
        Ok(stream) => Ok(stream.into()),
        Err(Broken::Denied(why) | Broken::Lost(why)) => Err(not_connected(hop, why)),
        Err(Broken::TimedOut | Broken::TooMuch) => Err(lost()),
    }
}

#[cfg(test)]
mod tests;
