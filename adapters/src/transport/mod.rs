//! Transports run an adapter's commands where its platform is reached.

mod account;
mod heard;
mod local;
mod running;
mod ssh;

use std::time::Duration;

use async_trait::async_trait;

pub use account::Account;
pub use local::{LocalPilots, LocalShell, goes_to_local_pilots, process_end};
pub use running::end_commands;
pub use ssh::{Asker, Nobody, Prompt, Sftp, SftpError, Ssh, SshError, end_forwards};

use crate::command::{Command, Output};

/// No batch system has more to say: its listing of 10,000 jobs is a hundredth of that.
pub const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Runs command lines somewhere.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Runs one command to its end or its time limit.
    async fn run(&self, command: &Command) -> Result<Output, TransportError>;
}

impl TransportError {
    /// Whether the command was never started.
    pub fn is_nothing_done(&self) -> bool {
        matches!(
            self,
            TransportError::NotStarted { .. }
                | TransportError::NotConnected(_)
                | TransportError::NotForwarded { .. }
        )
    }
}

/// Why a command has no output.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// It was never started: nothing happened.
    #[error("failed to start {command}: {source}")]
    NotStarted {
        /// Its name.
        command: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It was never started, as nobody could be reached.
    #[error(transparent)]
    NotConnected(#[from] SshError),
    /// Nobody listens there for us: the host does not allow it.
    #[error(
        "{host} forwards no port to here: {why}; allow it in its sshd_config (AllowTcpForwarding, DisableForwarding) and \
         for the key (`restrict`), or set `reach: direct` or the URL by which nodes reach the manager"
    )]
    NotForwarded {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// It wrote without end: what became of it is not known.
    #[error("{command} wrote more than {OUTPUT_BYTES_MAX} bytes: its outcome is unknown")]
    TooMuch {
        /// Its name.
        command: String,
    },
    /// It was started, and what became of it is not known.
    #[error("{command} gave no answer in {limit:?}: its outcome is unknown")]
    TimedOut {
        /// Its name.
        command: String,
        /// The limit.
        limit: Duration,
    },
    /// It was started, and then the connection to it broke.
    #[error("lost {command} while it ran: {source}")]
    Broken {
        /// Its name.
        command: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
