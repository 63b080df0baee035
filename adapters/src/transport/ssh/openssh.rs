//! A host reached by this host's own `ssh`, so that whatever `ssh HOST` does is done here, too. One master process holds
//! the connection; commands, streams and the tunnel go through its socket. The socket is in a private folder of the
//! user, so that all programs of the user share the connection, and a person can open it from any terminal.

mod master;
mod proxy;
mod run;
mod verdict;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use super::{
    Asker, MORE_SESSIONS, SshError,
    address::Address,
    at_host,
    route::{self, Said, Unsaid},
};
use crate::{
    command::{Command, Output},
    transport::TransportError,
};
pub(in crate::transport) use master::end_all_forwards;
use master::{Master, Opening};
use run::Ran;

/// A host that asks for a person is not asked again for so long, unless a person has opened a connection.
const ASK_AGAIN: Duration = Duration::from_secs(300);

/// Connections that may end just when something is asked of them.
const N_CONNECTIONS_TRIED: usize = 3;

/// A host reached by `ssh`.
pub(super) struct OpenSsh {
    address: String,
    config: Option<String>,
    asker: Arc<dyn Asker>,
    /// Where sockets are; `None`: in the user's folder for them.
    sockets: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    master: Option<Arc<Master>>,
    /// Another connection has another number.
    number: u64,
    /// Why a person is needed, and when that was found out by which configuration.
    waits: Option<(SshError, Instant, PathBuf)>,
}

impl OpenSsh {
    pub(super) fn new(address: String, config: Option<String>, asker: Arc<dyn Asker>) -> OpenSsh {
        OpenSsh { address, config, asker, sockets: None, state: Mutex::default() }
    }

    /// The same with sockets in this folder.
    pub(super) fn with_sockets_in(self, folder: PathBuf) -> OpenSsh {
        OpenSsh { sockets: Some(folder), ..self }
    }

    /// Sees to it that there is a connection; gives its number.
    pub(super) async fn connect(&self) -> Result<u64, SshError> {
        let mut state = self.state.lock().await;
        self.connected(&mut state).await?;
        Ok(state.number)
    }

    /// The same, by a person at the terminal of this process.
    pub(super) async fn log_in(&self) -> Result<(), SshError> {
        let mut state = self.state.lock().await;
        let opening = self.opening().await?;
        if self.adopt(&mut state, &opening).await.is_none() {
            self.open(&opening, self.asker.lends_terminal()).await?;
            self.adopt(&mut state, &opening).await.ok_or_else(|| self.ended_at_once())?;
        }
        Ok(())
    }

    async fn open(&self, opening: &Opening, is_person_there: bool) -> Result<(), SshError> {
        let opened = opening.open(is_person_there).await;
        if matches!(opened, Err(SshError::Interrupted { .. })) {
            self.asker.interrupt();
        }
        opened
    }

    fn ended_at_once(&self) -> SshError {
        SshError::Broken { host: self.address.clone(), what: "the connection ended at once".into() }
    }

    /// Whether somebody else has opened a connection, or there is one still. The host is not asked.
    pub(super) async fn is_open(&self) -> bool {
        let mut state = self.state.lock().await;
        if state.master.as_ref().is_some_and(|master| master.is_alive()) {
            return true;
        }
        match self.opening().await {
            Ok(opening) => self.adopt(&mut state, &opening).await.is_some(),
            Err(_) => false,
        }
    }

    /// Ends the connection, for all who share it.
    pub(super) async fn close(&self) {
        let master = self.state.lock().await.master.take();
        if let Some(master) = master {
            master.close().await;
        }
    }

    async fn connected(&self, state: &mut State) -> Result<Arc<Master>, SshError> {
        if let Some(master) = state.master.as_ref().filter(|master| master.is_alive()) {
            return Ok(master.clone());
        }
        state.master = None;
        let opening = self.opening().await?;
        if let Some(master) = self.adopt(state, &opening).await {
            return Ok(master);
        }
        let is_person_there = self.asker.lends_terminal();
        if let Some((why, since, socket)) = &state.waits
            && !is_person_there
            && since.elapsed() < ASK_AGAIN
            && *socket == opening.shared
        {
            return Err(why.clone());
        }
        let mut opened = self.open(&opening, false).await;
        if is_person_there && opened.as_ref().is_err_and(SshError::needs_person) {
            opened = self.open(&opening, true).await;
        }
        if let Err(why) = opened {
            if why.needs_person() {
                state.waits = Some((why.clone(), Instant::now(), opening.shared.clone()));
            }
            return Err(why);
        }
        self.adopt(state, &opening).await.ok_or_else(|| self.ended_at_once())
    }

    /// Takes over a connection that is there.
    async fn adopt(&self, state: &mut State, opening: &Opening) -> Option<Arc<Master>> {
        let sockets = opening.sockets();
        let found = blocking(move || sockets.into_iter().find_map(Master::at)).await.flatten();
        let master = Arc::new(found?.with_overrides(opening.overrides()));
        state.number += 1;
        state.waits = None;
        state.master = Some(master.clone());
        Some(master)
    }

    /// Finds out where its socket is, by all that the configuration says.
    async fn opening(&self) -> Result<Opening, SshError> {
        let unresolved = |why: String| SshError::Unresolved { address: self.address.clone(), why };
        let address = Address::read(&self.address).map_err(unresolved)?;
        let (asked, config) = (address.clone(), self.config.clone());
        let said: Result<Said, Unsaid> = blocking(move || route::said(&asked, config.as_deref()))
            .await
            .unwrap_or_else(|| Err(Unsaid::Other("it was not asked".into())));
        let said = said.map_err(|why| {
            unresolved(match why {
                Unsaid::NoProgram => route::NO_PROGRAM.to_owned(),
                Unsaid::Other(why) => why,
            })
        })?;
        let (config, sockets) = (self.config.clone(), self.sockets.clone());
        let opening = blocking(move || Opening::new(address, config, said, sockets)).await;
        opening.unwrap_or_else(|| Err("it was not looked for".to_owned())).map_err(unresolved)
    }

    /// Runs a command to its end or its time limit.
    pub(super) async fn run(&self, command: &Command) -> Result<Output, TransportError> {
        let mut why = String::new();
        for _ in 0..N_CONNECTIONS_TRIED {
            let master = self.master().await?;
            let until = Instant::now() + command.time_limit;
            match run::run(&self.words(&master)?, command, &self.address, until).await {
                Ran::Ended(output) => return Ok(output),
                Ran::Failed(error) => return Err(error),
                // The command did not start: another connection may run it.
                Ran::NotBegun(words) if !master.is_alive() => why = words,
                Ran::NotBegun(words) => return Err(self.not_started(command, words)),
            }
        }
        Err(SshError::Broken { host: self.address.clone(), what: why }.into())
    }

    /// Listens on the host's loopback address, and connects who comes there with `to` here; gives the port.
    pub(super) async fn forward(&self, to: SocketAddr) -> Result<u16, TransportError> {
        let mut why = String::new();
        for _ in 0..N_CONNECTIONS_TRIED {
            let master = self.master().await?;
            match master.forward(to).await {
                Ok(port) => return Ok(port),
                Err(words) if !master.is_alive() => why = words,
                Err(words) => return Err(self.not_forwarded(words)),
            }
        }
        Err(SshError::Broken { host: self.address.clone(), what: why }.into())
    }

    /// Listens there no more.
    pub(super) async fn end_forwards(&self) {
        let master = self.state.lock().await.master.clone();
        if let Some(master) = master {
            master.end_forwards().await;
        }
    }

    async fn master(&self) -> Result<Arc<Master>, SshError> {
        let mut state = self.state.lock().await;
        self.connected(&mut state).await
    }

    /// The words before a command that goes through a master.
    fn words(&self, master: &Master) -> Result<Vec<String>, SshError> {
        let unresolved = |why: String| SshError::Unresolved { address: self.address.clone(), why };
        let address = Address::read(&self.address).map_err(unresolved)?;
        let config = self.config.iter().flat_map(|config| ["-F".to_owned(), config.clone()]);
        Ok(config.chain(master.client_words()).chain(address.words()).collect())
    }

    /// The words by which `ssh` serves files.
    pub(super) async fn sftp_words(&self) -> Result<Vec<String>, SshError> {
        let master = self.master().await?;
        let words = ["-s".to_owned()].into_iter().chain(self.words(&master)?);
        Ok(words.chain(["sftp".to_owned()]).collect())
    }

    fn not_started(&self, command: &Command, mut words: String) -> TransportError {
        if words.contains("Session open refused by peer") {
            words = format!("{words}; {MORE_SESSIONS}");
        }
        let command = at_host(command, &self.address);
        TransportError::NotStarted { command, source: std::io::Error::other(words) }
    }

    fn not_forwarded(&self, words: String) -> TransportError {
        let host = self.address.clone();
        match is_denied(&words) {
            true => TransportError::NotForwarded { host, why: words },
            false => SshError::Broken { host, what: words }.into(),
        }
    }
}

/// Whether the host said no when it was asked to listen for us: `…: remote port forwarding failed for listen port 0`.
fn is_denied(words: &str) -> bool {
    ["port forwarding failed", "refused forwarding request"].iter().any(|denied| words.contains(denied))
}

/// Does something that blocks; `None`: it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Whether this host has a program `ssh`.
pub(super) fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("ssh").is_file())
}

#[cfg(test)]
mod tests;
