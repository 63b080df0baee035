//! A host reached by libssh2, over one connection that is kept and made again when it is lost: for hosts where there is
//! no program `ssh`.

use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Stdio,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt::TcpUserTimeout};
use tokio::sync::{Mutex, oneshot};

use super::{
    Asker, MORE_SESSIONS, SshError, after_mark, at_host, code_of_shell, has_mark, instead,
    line::{
        Line, Order,
        reply::{Answer, Broken},
    },
    login,
    route::{self, Hop},
    shell_line,
    wire::Wire,
};
use crate::{
    command::{Command, Output},
    transport::TransportError,
};

/// For so long a host may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// For so long a host may leave unconfirmed what was sent.
const SILENCE_MAX_MS: u32 = 90_000;

/// The one that may be on its way out, and two that end before they are asked for anything.
const N_CONNECTIONS_TRIED: usize = 3;

/// A host reached by libssh2.
pub(super) struct Libssh2 {
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

impl Libssh2 {
    /// A host that is connected to once something is to be run.
    pub(super) fn new(address: String, config: Option<String>, asker: Arc<dyn Asker>) -> Libssh2 {
        Libssh2 { address, config, asker, connection: Mutex::default() }
    }

    /// Whether there is a connection.
    pub(super) async fn is_open(&self) -> bool {
        self.connection.lock().await.line.as_ref().is_some_and(|line| !line.has_ended())
    }

    /// Ends the connection.
    pub(super) async fn close(&self) {
        self.connection.lock().await.line = None;
    }

    /// Sees to it that there is a connection; gives its number: another one has another.
    ///
    /// # Errors
    /// There can be none.
    pub(super) async fn connect(&self) -> Result<u64, TransportError> {
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
    pub(super) async fn forward(&self, to: SocketAddr) -> Result<u16, TransportError> {
        let asked = self.ask(&self.address, Duration::ZERO, |answer| Order::Forward { to, answer }).await;
        asked.map_err(|error| match error {
            TransportError::NotStarted { command: host, source } => {
                TransportError::NotForwarded { host, why: source.to_string() }
            }
            error => error,
        })
    }

    /// The outcome of an order; `name`: what it is in messages. A connection that is about to end takes none: the next one
    /// gets it.
    async fn ask<T>(
        &self,
        name: &str,
        limit: Duration,
        order: impl Fn(Answer<T>) -> Order,
    ) -> Result<T, TransportError> {
        for _ in 0..N_CONNECTIONS_TRIED {
            let (answer, answered) = oneshot::channel();
            self.order(order(answer)).await?;
            // Nobody took it, or there would be an answer.
            let Ok(result) = answered.await else { continue };
            let command = name.to_owned();
            return result.map_err(|broken| match broken {
                Broken::Denied(why) => {
                    TransportError::NotStarted { command, source: std::io::Error::other(why) }
                }
                Broken::NoSession(why) => {
                    let why = format!("{why}; {MORE_SESSIONS}");
                    TransportError::NotStarted { command, source: std::io::Error::other(why) }
                }
                Broken::TimedOut => TransportError::TimedOut { command, limit },
                Broken::TooMuch => TransportError::TooMuch { command },
                Broken::Lost(why) => TransportError::Broken { command, source: std::io::Error::other(why) },
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

impl Libssh2 {
    /// Runs a command to its end or its time limit.
    pub(super) async fn run(&self, command: &Command) -> Result<Output, TransportError> {
        let until = Instant::now() + command.time_limit;
        let order = |answer| {
            let (line, stdin) = (shell_line(command), command.stdin.clone());
            Order::Run { line, stdin, until, answer }
        };
        let name = at_host(command, &self.address);
        let output = self.ask(&name, command.time_limit, order).await?;
        let is_of_ours = has_mark(&output.stdout) || has_mark(&output.stderr);
        if output.code.is_some() && !is_of_ours {
            let source = std::io::Error::other(instead(&output.words()));
            return Err(TransportError::NotStarted { command: name, source });
        }
        let code = output.code.and_then(code_of_shell);
        Ok(Output { code, stdout: after_mark(output.stdout), stderr: after_mark(output.stderr) })
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
pub(super) fn log_in(
    address: &str,
    config: Option<&str>,
    asker: &dyn Asker,
) -> Result<(Wire, Option<Line>), SshError> {
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
    std::thread::Builder::new().spawn(move || child.wait()).map_err(failed)?;
    Ok(ours.into())
}

fn next_socket(line: &Line, hop: &Hop) -> Result<OwnedFd, SshError> {
    let (answer, answered) = mpsc::channel();
    let order = Order::Connect { host: hop.host.clone(), port: hop.port, answer };
    let lost = || not_connected(hop, "the connection to the host before it ended");
    line.give(order).map_err(|_| lost())?;
    match answered.recv().map_err(|_| lost())? {
        Ok(stream) => Ok(stream.into()),
        Err(Broken::Denied(why) | Broken::NoSession(why) | Broken::Lost(why)) => Err(not_connected(hop, why)),
        Err(Broken::TimedOut | Broken::TooMuch) => Err(lost()),
    }
}
