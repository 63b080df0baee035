//! Why a manager does not start, or a platform is not attached.

use std::{net::SocketAddr, path::PathBuf};

use crate::{
    engine_loop::handle::Ended,
    files::stores::StoresError,
    home::NotAtHome,
    security::{tls::TlsError, tokens::TokensError},
    store::StoreError,
};

/// A manager with one pilot and a few visitors.
pub(super) const N_FILES_MIN: u64 = 64;

/// Why a manager did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is a copy of another manager's folder, or was moved.
    #[error(transparent)]
    NotAtHome(#[from] NotAtHome),
    /// The secret.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address.
    #[error("failed to listen on {address}: {source}{}", hint(source))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file in the folder.
    #[error("failed to read or write {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A platform names an adapter that there is not.
    #[error("platform {platform:?}: found adapter {found:?}; there are {}", adapters::all_names().collect::<Vec<_>>().join(", "))]
    Adapter {
        /// The platform.
        platform: String,
        /// What it says.
        found: String,
    },
    /// The account that a platform's tasks have.
    #[error("{0}")]
    Account(String),
    /// Pilots would be told an address that is none.
    #[error(
        "platform {platform}: its pilots would be told to come to `{}`, which cannot be part of an address: set the name by \
         which its nodes reach this host, `listen: {{name: …}}`",
        host.escape_debug()
    )]
    HostName {
        /// The platform.
        platform: String,
        /// What the host is called.
        host: String,
    },
    /// Pilots of other hosts would come by plain HTTP, and nobody has said so.
    #[error(
        "platform {platform}: its pilots would come by plain http to {host}, and their tokens and what tasks write could be \
         read and changed on the way: write an https:// URL as its `reach`, or, where you trust the network, `tls: off`"
    )]
    Plain {
        /// The platform.
        platform: String,
        /// Where its pilots come to.
        host: String,
    },
    /// A store that jobs may name.
    #[error(transparent)]
    Stores(#[from] StoresError),
    /// Few files may be open.
    #[error(
        "this process may have {0} files open (ulimit -n), and a manager needs at least {min}: raise that limit",
        min = N_FILES_MIN
    )]
    Files(u64),
    /// A thread.
    #[error("failed to start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// It ended while it started: its log says why.
    #[error("failed to start: {0}")]
    Ended(#[from] Ended),
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => " (another program listens there; choose another port)",
        std::io::ErrorKind::PermissionDenied => " (ports below 1024 are for root; choose another port)",
        std::io::ErrorKind::AddrNotAvailable => " (this host has no such address)",
        _ => "",
    }
}
