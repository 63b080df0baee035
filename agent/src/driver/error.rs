//! The errors that end a pilot.

use std::{io, path::PathBuf};

use crate::session::{arrival::OpenSpoolError, client::ClientError, spool::SpoolError};

/// The reason why a pilot ends without leaving properly.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The manager refuses the pilot or cannot be reached.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The pilot's folder cannot be used.
    #[error("the pilot's folder {path:?} cannot be used: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The spool cannot be used.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The system gives no thread, signal handler or timer.
    #[error("the node gives the pilot no {what}: {source}")]
    System {
        /// The resource that was needed.
        what: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The pilot had to end before the manager answered.
    #[error("the pilot has to end, and the manager at {url} has not answered")]
    NotRegistered {
        /// The manager's address.
        url: String,
    },
    /// The process that the pilot watches has ended.
    #[error("process {pid}, which the pilot was to watch, has ended")]
    Abandoned {
        /// Its process id.
        pid: u32,
    },
    /// The pilot had to end before all results were acknowledged.
    #[error("the pilot ends with {n_reports} reports that the manager at {url} has not acknowledged")]
    Unreported {
        /// The manager's address.
        url: String,
        /// Number of reports without acknowledgement.
        n_reports: usize,
    },
}

impl From<OpenSpoolError> for DriverError {
    fn from(error: OpenSpoolError) -> DriverError {
        match error {
            OpenSpoolError::Folder { path, source } => DriverError::Folder { path, source },
            OpenSpoolError::Spool(error) => DriverError::Spool(error),
        }
    }
}
