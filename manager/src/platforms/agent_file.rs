//! The agent's program, for servers of a cloud, which fetch it by its hash.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::body::Bytes;
use ring::digest;
use tokio::sync::OnceCell;

/// Before the hash of the agent that servers of clouds fetch.
pub(crate) const AGENT_PATH: &str = "/agent";

/// The agent as it was when it was first asked for: a program that is replaced while the manager runs is not another
/// one to servers that are on their way. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AgentFile {
    command: Arc<Vec<String>>,
    is_offered: Arc<AtomicBool>,
    held: Arc<OnceCell<Agent>>,
}

/// The program's bytes and what is known of them.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) bytes: Bytes,
    /// In hexadecimal digits.
    pub(crate) sha256: String,
    /// What follows the program's name when it is to be an agent.
    pub(crate) arguments: Vec<String>,
}

impl AgentFile {
    /// Of the command that runs an agent here. Nothing is read yet.
    pub fn new(command: &[String]) -> AgentFile {
        AgentFile { command: Arc::new(smallest(command)), is_offered: Arc::default(), held: Arc::default() }
    }

    /// From now on whoever knows its hash may have it: there is a cloud.
    pub(crate) fn offer(&self) {
        self.is_offered.store(true, Ordering::Relaxed);
    }

    /// The agent; kept from now on.
    ///
    /// # Errors
    /// It cannot be read, in words.
    pub(crate) async fn read(&self) -> Result<&Agent, String> {
        self.held.get_or_try_init(|| async { read(&self.command).await }).await
    }

    /// The agent, if that is its hash: servers that a manager of before asked for may come for it.
    pub(crate) async fn of_hash(&self, sha256: &str) -> Option<Bytes> {
        if !self.is_offered.load(Ordering::Relaxed) {
            return None;
        }
        let agent = self.read().await.ok()?;
        (agent.sha256 == sha256).then(|| agent.bytes.clone())
    }
}

/// Reads an agent's program.
///
/// # Errors
/// It cannot be read, in words.
pub(crate) async fn read(command: &[String]) -> Result<Agent, String> {
    let [program, arguments @ ..] = command else {
        return Err("this manager has no agent to bring there".into());
    };
    let path = PathBuf::from(program);
    let reading = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
    let bytes = reading.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    let bytes = bytes.map_err(|error| format!("failed to read the agent {program}: {error}"))?;
    let hash = digest::digest(&digest::SHA256, &bytes);
    let sha256 = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Agent { bytes: bytes.into(), sha256, arguments: arguments.to_vec() })
}

/// The agent alone, where it stands beside the program that has it in it.
pub fn smallest(command: &[String]) -> Vec<String> {
    let [program, _] = command else { return command.to_vec() };
    let alone = Path::new(program).with_file_name("pilotfish-agent");
    if alone.is_file() { vec![alone.display().to_string()] } else { command.to_vec() }
}
