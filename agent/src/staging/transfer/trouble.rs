//! The failures of a transfer, by the reaction to them.

use std::io;

/// The reason why a transfer failed.
#[derive(Debug)]
pub enum Trouble {
    /// The manager is away or busy; the transfer itself is not at fault.
    Away(String),
    /// The manager has no room for the file; a person must make some.
    Full(String),
    /// A retry may help.
    Brief(String),
    /// The server of that name sends nothing.
    Silent { server: String, what: String },
    /// A retry does not help.
    Lasting(String),
    /// A retry does not help: the file does not exist.
    Missing(String),
    /// This node's disk fails.
    Disk(io::Error),
}

impl Trouble {
    /// Returns the text, unless the disk has failed.
    pub fn words(&self) -> Option<&str> {
        match self {
            Trouble::Away(what)
            | Trouble::Full(what)
            | Trouble::Brief(what)
            | Trouble::Silent { what, .. }
            | Trouble::Lasting(what)
            | Trouble::Missing(what) => Some(what),
            Trouble::Disk(_) => None,
        }
    }

    /// Returns the same failure with another text.
    pub(super) fn told(self, told: impl FnOnce(String) -> String) -> Trouble {
        match self {
            Trouble::Away(what) => Trouble::Away(told(what)),
            Trouble::Full(what) => Trouble::Full(told(what)),
            Trouble::Brief(what) => Trouble::Brief(told(what)),
            Trouble::Silent { server, what } => Trouble::Silent { server, what: told(what) },
            Trouble::Lasting(what) => Trouble::Lasting(told(what)),
            Trouble::Missing(what) => Trouble::Missing(told(what)),
            Trouble::Disk(error) => Trouble::Disk(error),
        }
    }
}

/// Returns the cause of an error without the address, which messages show separately.
pub(in crate::staging) fn cause(error: &reqwest::Error) -> String {
    protocol::net::cause::cause(error, error.is_timeout())
}
