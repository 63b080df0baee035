//! Answers to commands and requests on a connection, and why there may be none.

use tokio::sync::oneshot;

/// Why something on a connection did not come to its end.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The other side does not want it: nothing was begun.
    Denied(String),
    /// The other side opens no more sessions: nothing was begun.
    NoSession(String),
    /// It took too long.
    TimedOut,
    /// It wrote more than anybody reads.
    TooMuch,
    /// The connection is lost.
    Lost(String),
}

/// What a command or a request came to.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Broken>>;
