//! The signals by which platforms and people tell a pilot to go.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// All of them as one stream. Grid Engine says with SIGUSR2 that a job is about to be killed, and with SIGUSR1
/// that it is about to be stopped, when its tasks had better run elsewhere; LoadLeveler says with SIGXCPU that
/// the soft limit of time has come.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user_1: Signal,
    user_2: Signal,
    soft_limit: Signal,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// The system allows no handler.
    pub fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
            soft_limit: signal(SignalKind::from_raw(libc::SIGXCPU))?,
        })
    }

    /// Returns when the next one has come.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
            _ = self.user_1.recv() => {}
            _ = self.user_2.recv() => {}
            _ = self.soft_limit.recv() => {}
        }
    }
}
