//! Why a transfer fails, in words and by what is to be done then.

use std::io;

/// Why a transfer failed.
#[derive(Debug)]
pub enum Trouble {
    /// The manager is not there, or has no time: no fault of the transfer.
    Away(String),
    /// The manager has no room for it, which somebody will have to make.
    Full(String),
    /// It may go better the next time.
    Brief(String),
    /// The server of that name sends nothing.
    Silent { server: String, what: String },
    /// It will not.
    Lasting(String),
    /// It will not: there is no such file.
    Missing(String),
    /// This node's disk.
    Disk(io::Error),
}

impl Trouble {
    /// What was said, unless it is the disk's.
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

    /// The same, told in other words.
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

/// What happened, without the address, which is told beside it.
pub(in crate::staging) fn cause(error: &reqwest::Error) -> String {
    protocol::net::cause::cause(error, error.is_timeout())
}
