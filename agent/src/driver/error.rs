//! Why a pilot ends without having left.

use std::{io, path::PathBuf};

use crate::session::{arrival::OpenSpoolError, client::ClientError, spool::SpoolError};

/// Why a pilot ends without having left properly.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The manager will not have us, or cannot be spoken to.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The pilot's folder cannot be used.
    #[error("the pilot's folder {path:?} cannot be used: {source}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No spool.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// Threads, signals or timers of the system are not to be had.
    #[error("the node gives the pilot no {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Told to end before the manager answered.
    #[error("the pilot has to end, and the manager at {url} has not answered")]
    NotRegistered {
        /// Where.
        url: String,
    },
    /// The process we were to watch has ended.
    #[error("process {pid}, which the pilot was to watch, has ended")]
    Abandoned {
        /// Its number.
        pid: u32,
    },
    /// The end came before all was reported.
    #[error("the pilot ends with {n_reports} reports that the manager at {url} has not acknowledged")]
    Unreported {
        /// Where.
        url: String,
        /// How many.
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
